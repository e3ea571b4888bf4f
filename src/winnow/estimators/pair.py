"""What estimators that read question and passage together share: distinct pairs, token-budget batches, two uses.

The same `judge` scores (in inference mode) and is trained (with gradients), so that both see the same numbers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from winnow.errors import ConfigError, ModelError
from winnow.models import keep_freed_memory
from winnow.pair_model import PairModel
from winnow.pairs import budget_batches

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from winnow.records import Passage

Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a batch came to: (pairs,) log-odds of "true" against "false"."""

    log_odds: torch.Tensor
    other: torch.Tensor
    """(pairs,) probability left for every other token (RE-RAG eq. 11); zero where there are but two classes."""


@dataclass
class PairEstimator(PairModel):
    """An estimator over weights of this machine; a kind of model adds how it loads, pads and judges.

    Args:
        batch_tokens: padded tokens a batch holds at most.
        advance: told how many more pairs are scored.

    """

    batch_tokens: int = 4096
    advance: Advance | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        if min(self.max_length, self.batch_tokens) < 1:
            raise ConfigError(
                f"estimator: max_length and batch_tokens start at 1; received {self.max_length}, {self.batch_tokens}."
            )

    def score(self, pairs: Sequence[tuple[str, Passage]]) -> NDArray[np.float32]:
        """Return (pairs,) float32 log-odds; equal pairs are scored once."""
        if self._lm is None:
            keep_freed_memory()
        place: dict[tuple[str, Passage], int] = {}
        for pair in pairs:
            place.setdefault(pair, len(place))
        distinct = list(place)
        self.tokens.prepare(distinct)
        rows = [self.tokens.encode(*pair) for pair in distinct]
        starts = [self.tokens.passage_start(question) for question, _ in distinct]
        found = np.zeros(len(rows), dtype=np.float32)
        for batch in budget_batches([len(row) for row in rows], self.batch_tokens):
            with torch.inference_mode():
                made = self.judge([rows[n] for n in batch], [starts[n] for n in batch])
            found[batch] = made.log_odds.float().cpu().numpy()
            if self.advance:
                self.advance(len(batch))
        if np.isnan(found).any():
            bad = distinct[int(np.isnan(found).argmax())]
            raise ModelError(
                f"{self.path} gave NaN for question {bad[0]!r}, passage {bad[1].passage_id!r}; try dtype=float32."
            )
        return found[[place[pair] for pair in pairs]] if pairs else found

    @abstractmethod
    def judge(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Judgement:
        """Judge a batch of token rows; `starts` are the positions at which the passages begin."""


@dataclass
class WordEstimator(PairEstimator):
    """An estimator whose judgement is a word it says: `words` are the classification tokens, for relevant and not."""

    words: Sequence[str] = ("true", "false")

    @cached_property
    def _two(self) -> tuple[int, int]:
        true, false = (single_piece(self.lm.tokenizer, word) for word in self.words)
        return true, false

    def read(self, logits_BV: torch.Tensor) -> Judgement:
        """Return the judgement in the logits of the position at which the word is said."""
        return two_tokens(logits_BV, *self._two)


def single_piece(tokenizer: PreTrainedTokenizerBase, word: str) -> int:
    """Return the one token of a classification word.

    Raises:
        ModelError: if the tokenizer splits the word, so that its first piece would also begin other words.

    """
    ids: list[int] = tokenizer(word, add_special_tokens=False)["input_ids"]
    if len(ids) != 1 or ids[0] == tokenizer.unk_token_id:
        pieces = tokenizer.convert_ids_to_tokens(ids)
        raise ModelError(
            f"The tokenizer writes {word!r} as {pieces}; a classification token must be one piece it knows. "
            "Choose two other words in estimator.engine.words, for example [yes, no]."
        )
    return ids[0]


def two_tokens(logits_BV: torch.Tensor, true: int, false: int) -> Judgement:
    """Return the judgement in a vocabulary's logits at one position (RE-RAG eqs. 3, 4 and 11).

    log(RE / (1 - RE)) of eq. 4 is the difference of the two logits, which stays finite where RE rounds to 0 or 1.
    """
    logits: Any = logits_BV.float()
    both = torch.logsumexp(logits[:, [true, false]], dim=-1)
    other = 1 - torch.exp(both - torch.logsumexp(logits, dim=-1))
    return Judgement(logits[:, true] - logits[:, false], other)
