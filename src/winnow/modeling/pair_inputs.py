"""Inputs of a question and a passage: templates of the text, tokens, padding and batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import TYPE_CHECKING, ClassVar

from winnow.errors import ConfigError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class PairTemplate:
    """Templates of question and passage. The defaults are FiD's, which RE-RAG's estimator and generator share.

    Args:
        question: Template with the field {question}.
        passage: Template with the field {text} and, optionally, {title}.
        suffix: Text after both, such as the words that a causal model continues with "true" or "false".

    """

    revision: ClassVar[int] = 1

    question: str = "question: {question}"
    passage: str = "title: {title} context: {text}"
    suffix: str = ""

    def __post_init__(self) -> None:
        """Raise ConfigError if a template lacks a field or has an unknown one."""
        for name, required, allowed in (("question", {"question"}, {"question"}), ("passage", {"text"}, {"text", "title"})):
            fields = {field_name for _, field_name, _, _ in Formatter().parse(getattr(self, name)) if field_name is not None}
            if required - fields or fields - allowed:
                raise ConfigError(
                    f"template.{name} must have the fields {sorted(required)}; received {getattr(self, name)!r}."
                )


@dataclass
class PairTokens:
    """Tokenises pairs as head, question, middle, passage and tail.

    A passage that is too long is truncated, and the pair is counted once. Each passage is tokenised only once. Question and
    passage are tokenised separately, because tokenizers split at the white space between them anyway.
    """

    tokenizer: PreTrainedTokenizerBase
    template: PairTemplate
    max_length: int
    head: Sequence[int] = ()
    middle: Sequence[int] = ()
    tail: Sequence[int] = ()
    spaced: bool = False
    """Whether the tokenizer distinguishes "word" from " word", as byte-level ones do. Passages then start with a space."""
    _truncated_pairs: set[tuple[str, Passage]] = field(default_factory=set, repr=False)
    _questions: dict[str, list[int]] = field(default_factory=dict, repr=False)
    _passages: dict[Passage, list[int]] = field(default_factory=dict, repr=False)

    @property
    def truncated(self) -> int:
        """Return the number of pairs truncated so far."""
        return len(self._truncated_pairs)

    def prepare(self, pairs: Sequence[tuple[str, Passage]]) -> None:
        """Tokenise the new questions and passages of these pairs, in two calls of the tokenizer."""
        questions = list(dict.fromkeys(q for q, _ in pairs if q not in self._questions))
        passages = list(dict.fromkeys(p for _, p in pairs if p not in self._passages))
        space = " " if self.spaced else ""
        passage_texts = [space + self.template.passage.format(title=p.title, text=p.text) for p in passages]
        question_texts = [self.template.question.format(question=q) for q in questions]
        self._questions.update(zip(questions, self._tokenise(question_texts), strict=True))
        self._passages.update(zip(passages, self._tokenise(passage_texts), strict=True))

    def encode(self, question: str, passage: Passage) -> list[int]:
        """Tokenise a pair. The passage is truncated so that the pair has at most `max_length` tokens."""
        if question not in self._questions or passage not in self._passages:
            self.prepare([(question, passage)])
        question_ids, passage_ids = self._questions[question], self._passages[passage]
        available = self.max_length - len(self.head) - len(self.middle) - len(self.tail) - len(question_ids)
        if available < 1:
            raise ConfigError(f"max_length={self.max_length} leaves no token for a passage beside the question {question!r}.")
        if len(passage_ids) > available:
            self._truncated_pairs.add((question, passage))
        return [*self.head, *question_ids, *self.middle, *passage_ids[:available], *self.tail]

    def passage_start(self, question: str) -> int:
        """Return the position of the first token of the passage."""
        return len(self.head) + len(self._questions[question]) + len(self.middle)

    def _tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        ids: list[list[int]] = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return ids


def padded(rows: Sequence[Sequence[int]], pad: int, *, left: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad token ids to (rows, longest), and build their attention mask."""
    import torch

    side = "left" if left else "right"
    tensors = [torch.tensor(list(row)) for row in rows]
    ids = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=pad, padding_side=side)
    mask = torch.nn.utils.rnn.pad_sequence(
        [torch.ones(len(row), dtype=torch.long) for row in rows], batch_first=True, padding_side=side
    )
    return ids, mask


def budget_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group row indices into batches of similar length, longest first.

    A batch has at most `budget` padded tokens or a single row. Rows of equal length that fill more than half the budget form
    a batch without padding, which needs no mask.
    """
    order = sorted(range(len(lengths)), key=lambda n: -lengths[n])
    batches: list[list[int]] = []
    start = 0
    while start < len(order):
        width = max(1, lengths[order[start]])
        batch = order[start : start + max(1, budget // width)]
        equal_count = sum(lengths[n] == lengths[batch[0]] for n in batch)
        batches.append(batch[:equal_count] if 2 * equal_count * width > budget else batch)
        start += len(batches[-1])
    return batches
