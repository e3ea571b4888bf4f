"""Inputs of models that read question-passage pairs: templates, tokens, padding and batches."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar

import numpy as np

from winnow.errors import ConfigError
from winnow.identity.values import Template, check_values

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from winnow.records import Passage


T = TypeVar("T")
_TITLE = re.compile(r"\{title\}.*?(?=\{text\})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PairTemplate:
    """Templates of a pair. The defaults are FiD's, which RE-RAG's estimator and generator share.

    Args:
        question: Template with the field {question}.
        passage: Template with the field {text} and, optionally, {title}. One that begins with the
            title begins with the text of a passage without a title.
        suffix: Text after the passage, for example words that a model continues with "true" or
            "false". Encoders with a classifier have none.
        passage_first: Whether the passage precedes the question, as the premise precedes
            the hypothesis in models of entailment.
    """

    revision: ClassVar[int] = 2

    question: Annotated[str, Template("question")] = "question: {question}"
    passage: Annotated[str, Template("text", optional=("title",))] = (
        "title: {title} context: {text}"
    )
    suffix: str = ""
    passage_first: bool = False

    def __post_init__(self) -> None:
        check_values("template", self)

    def format_passage(self, passage: Passage) -> str:
        """Fill the template of a passage. FiD's, which names its fields, keeps an empty title."""
        template = self.passage
        if not passage.title and template.lstrip().startswith("{title}"):
            template = remove_title(template)
        return template.format(title=passage.title, text=passage.text)


@dataclass
class PairTokenizer:
    """A tokenizer of question-passage pairs, laid out as head, question, middle, passage and tail.

    If the template has the passage first, passage and question change places. A passage that is too
    long is truncated, and the pair is counted once. Each question and each passage is tokenized
    only once. They are tokenized separately, because tokenizers split at the white space between
    them anyway.

    Args:
        tokenizer: Tokenizer of the model.
        template: Templates of question and passage.
        max_length: Maximum number of tokens of a pair.
        head: Token ids before the question.
        middle: Token ids between question and passage.
        tail: Token ids after the passage.
        prepend_space: Whether to tokenize passages with a space before them. Byte-level tokenizers
            require it, because they distinguish "word" from " word".
        max_texts: Number of questions, and of passages, whose tokens are kept, besides those that
            were prepared last.
    """

    tokenizer: PreTrainedTokenizerBase
    template: PairTemplate
    max_length: int
    head: Sequence[int] = ()
    middle: Sequence[int] = ()
    tail: Sequence[int] = ()
    prepend_space: bool = False
    max_texts: int = 50_000
    _truncated_pairs: set[int] = field(default_factory=set, repr=False)
    _questions: dict[str, list[int]] = field(default_factory=dict, repr=False)
    _passages: dict[Passage, list[int]] = field(default_factory=dict, repr=False)

    @property
    def truncated(self) -> int:
        """Return the number of pairs truncated so far."""
        return len(self._truncated_pairs)

    def prepare(self, pairs: Sequence[tuple[str, Passage]]) -> None:
        """Tokenize the new questions and passages of these pairs in two calls of the tokenizer.

        The tokens of texts that were not used for the longest time are forgotten if there are too
        many.
        """
        used_questions = dict.fromkeys(question for question, _ in pairs)
        used_passages = dict.fromkeys(passage for _, passage in pairs)
        questions = [question for question in used_questions if question not in self._questions]
        passages = [passage for passage in used_passages if passage not in self._passages]
        space = " " if self.prepend_space else ""
        passage_texts = [space + self.template.format_passage(passage) for passage in passages]
        question_texts = [
            self.template.question.format(question=question) for question in questions
        ]
        self._questions.update(zip(questions, self._tokenize(question_texts), strict=True))
        self._passages.update(zip(passages, self._tokenize(passage_texts), strict=True))
        _forget_oldest(self._questions, used_questions, self.max_texts)
        _forget_oldest(self._passages, used_passages, self.max_texts)

    def encode(self, question: str, passage: Passage) -> list[int]:
        """Tokenize a pair. Truncate the passage so that the pair fits into `max_length` tokens."""
        if question not in self._questions or passage not in self._passages:
            self.prepare([(question, passage)])
        question_ids, passage_ids = self._questions[question], self._passages[passage]
        available = self._count_available(question_ids)
        if available < 1:
            raise ConfigError(
                f"max_length={self.max_length} leaves no token for a passage beside the question "
                f"{question!r}. Raise max_length or shorten the template."
            )
        if len(passage_ids) > available:
            self._truncated_pairs.add(hash((question, passage)))
        first, second = question_ids, passage_ids[:available]
        if self.template.passage_first:
            first, second = second, first
        return [*self.head, *first, *self.middle, *second, *self.tail]

    def get_second_start(self, question: str, passage: Passage) -> int:
        """Return the position of the second text's first token in an already tokenized pair.

        The second text is the passage or, if the template has the passage first, the question.
        """
        first = self._questions[question]
        if self.template.passage_first:
            first = self._passages[passage][: self._count_available(first)]
        return len(self.head) + len(first) + len(self.middle)

    def _count_available(self, question_ids: Sequence[int]) -> int:
        """Return how many tokens the question leaves for the passage."""
        return (
            self.max_length - len(self.head) - len(self.middle) - len(self.tail) - len(question_ids)
        )

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, without special tokens."""
        if not texts:
            return []
        ids: list[list[int]] = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)[
            "input_ids"
        ]
        return ids


def remove_title(template: str) -> str:
    """Remove the title from the template of a passage, with what joins it to the text behind it."""
    return _TITLE.sub("", template)


def pad_rows(
    rows: Sequence[Sequence[int]], pad: int, *, left: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad rows of token ids to the length of the longest row.

    Args:
        rows: Token ids of each row.
        pad: Id of the padding token.
        left: Whether to pad on the left instead of on the right.

    Returns:
        The padded ids and their attention mask, both of shape (rows, longest length).
    """
    import torch

    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    columns = np.arange(lengths.max(initial=0))
    is_token = (
        columns >= lengths.max(initial=0) - lengths[:, None] if left else columns < lengths[:, None]
    )
    ids = np.full(is_token.shape, pad)
    ids[is_token] = np.fromiter(itertools.chain.from_iterable(rows), np.int64, int(lengths.sum()))
    return torch.from_numpy(ids), torch.from_numpy(is_token.astype(np.int64))


def group_by_token_budget(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group rows into batches of similar length, longest first.

    A batch has at most `budget` padded tokens, or it is a single row. Rows of equal length that
    fill more than half of the budget form a batch of their own, without padding.

    Args:
        lengths: Number of tokens of each row.
        budget: Maximum number of padded tokens per batch.

    Returns:
        The indices of the rows of each batch.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches: list[list[int]] = []
    start = 0
    while start < len(order):
        width = max(1, lengths[order[start]])
        batch = order[start : start + max(1, budget // width)]
        equal_count = sum(lengths[index] == lengths[batch[0]] for index in batch)
        batches.append(batch[:equal_count] if 2 * equal_count * width > budget else batch)
        start += len(batches[-1])
    return batches


def _forget_oldest(tokens: dict[T, list[int]], used: Collection[T], most: int) -> None:
    """Move the used texts to the end, and remove the first unused ones beyond `most` texts."""
    for text in used:
        tokens[text] = tokens.pop(text)
    for text in list(itertools.islice(tokens, max(0, len(tokens) - max(most, len(used))))):
        del tokens[text]
