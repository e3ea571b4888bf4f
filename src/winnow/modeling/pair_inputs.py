"""A question and a passage as one input: its text, and its tokens, with each passage tokenised once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import TYPE_CHECKING

from winnow.errors import ConfigError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class PairForm:
    """Templates of question and passage; FiD's by default (its data preparation), which RE-RAG shares with its generator.

    Args:
        question: has the field {question}.
        passage: has the field {text}, and may have {title}.
        suffix: follows both, such as the words that a causal model continues with "true" or "false".

    """

    question: str = "question: {question}"
    passage: str = "title: {title} context: {text}"
    suffix: str = ""

    def __post_init__(self) -> None:
        """Refuse a template without its field."""
        for name, needed, known in (("question", {"question"}, {"question"}), ("passage", {"text"}, {"text", "title"})):
            fields = {part for _, part, _, _ in Formatter().parse(getattr(self, name)) if part is not None}
            if needed - fields or fields - known:
                raise ConfigError(f"form.{name} must have the fields {sorted(needed)}; received {getattr(self, name)!r}.")


@dataclass
class PairTokens:
    """Tokenises pairs as head, question, middle, passage, tail; a long passage is cut, and the pair counted once.

    Each passage is tokenised once. Question and passage are tokenised separately, at a white space, where tokenizers split
    anyway.
    """

    tokenizer: PreTrainedTokenizerBase
    form: PairForm
    max_length: int
    head: Sequence[int] = ()
    middle: Sequence[int] = ()
    tail: Sequence[int] = ()
    spaced: bool = False
    """Whether the tokenizer distinguishes "word" from " word", as byte-level ones do: passages then start with a space."""
    _cut: set[tuple[str, Passage]] = field(default_factory=set, repr=False)
    _questions: dict[str, list[int]] = field(default_factory=dict, repr=False)
    _passages: dict[Passage, list[int]] = field(default_factory=dict, repr=False)

    @property
    def truncated(self) -> int:
        """Return how many pairs were cut so far."""
        return len(self._cut)

    def prepare(self, pairs: Sequence[tuple[str, Passage]]) -> None:
        """Tokenise what is new among these pairs, in two calls of the tokenizer."""
        questions = list(dict.fromkeys(q for q, _ in pairs if q not in self._questions))
        passages = list(dict.fromkeys(p for _, p in pairs if p not in self._passages))
        space = " " if self.spaced else ""
        texts = [space + self.form.passage.format(title=p.title, text=p.text) for p in passages]
        self._questions.update(
            zip(questions, self._ids([self.form.question.format(question=q) for q in questions]), strict=True)
        )
        self._passages.update(zip(passages, self._ids(texts), strict=True))

    def encode(self, question: str, passage: Passage) -> list[int]:
        """Return the tokens of a pair, at most `max_length`; the passage is cut to fit."""
        if question not in self._questions or passage not in self._passages:
            self.prepare([(question, passage)])
        question_ids, passage_ids = self._questions[question], self._passages[passage]
        left = self.max_length - len(self.head) - len(self.middle) - len(self.tail) - len(question_ids)
        if left < 1:
            raise ConfigError(f"max_length={self.max_length} leaves no token for a passage beside the question {question!r}.")
        if len(passage_ids) > left:
            self._cut.add((question, passage))
        return [*self.head, *question_ids, *self.middle, *passage_ids[:left], *self.tail]

    def passage_start(self, question: str) -> int:
        """Return the position at which the passage's tokens begin."""
        return len(self.head) + len(self._questions[question]) + len(self.middle)

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        ids: list[list[int]] = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return ids


def padded(rows: Sequence[Sequence[int]], pad: int, *, left: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (rows, longest) token ids, padded, and their attention mask."""
    import torch

    side = "left" if left else "right"
    tensors = [torch.tensor(list(row)) for row in rows]
    ids = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=pad, padding_side=side)
    mask = torch.nn.utils.rnn.pad_sequence(
        [torch.ones(len(row), dtype=torch.long) for row in rows], batch_first=True, padding_side=side
    )
    return ids, mask


def budget_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Return indices in batches of similar length, longest first, of at most `budget` padded tokens or one row.

    Rows of equal length that fill more than half a budget get a batch without padding, which needs no mask.
    """
    order = sorted(range(len(lengths)), key=lambda n: -lengths[n])
    batches: list[list[int]] = []
    start = 0
    while start < len(order):
        width = max(1, lengths[order[start]])
        batch = order[start : start + max(1, budget // width)]
        equal = sum(lengths[n] == lengths[batch[0]] for n in batch)
        batches.append(batch[:equal] if 2 * equal * width > budget else batch)
        start += len(batches[-1])
    return batches
