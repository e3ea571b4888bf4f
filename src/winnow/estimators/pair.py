"""What estimators that read question and passage together share: distinct pairs, token-budget batches, two uses.

The same functions score and are trained (with gradients); where OpenVINO runs them, the numbers agree but for rounding.
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
from winnow.estimators.openvino import Compiled
from winnow.models import keep_freed_memory, resolve_dtype, resolve_runtime
from winnow.pair_model import PairModel
from winnow.pairs import budget_batches

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from winnow.records import Passage

Advance = Callable[[int], None]
Batch = tuple[torch.Tensor, ...]
"""What an estimator's functions read: (B, T) token ids, (B, T) mask, and what else a kind of model adds."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a batch came to: (pairs,) log-odds of "true" against "false"."""

    log_odds: torch.Tensor
    other: torch.Tensor
    """(pairs,) probability left for every other token (RE-RAG eq. 11); zero where there are but two classes."""


@dataclass
class PairEstimator(PairModel):
    """An estimator over weights of this machine; a kind of model adds how it loads, lays out, encodes and concludes.

    Args:
        batch_tokens: padded tokens a batch holds at most.
        runtime: what scores: "torch", "openvino" (on a CPU), or "auto" (openvino there if it is installed).
        advance: told how many more pairs are scored.

    """

    batch_tokens: int = 4096
    runtime: str = "torch"
    advance: Advance | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        if min(self.max_length, self.batch_tokens) < 1:
            raise ConfigError(
                f"estimator: max_length and batch_tokens start at 1; received {self.max_length}, {self.batch_tokens}."
            )

    @property
    def loading_dtype(self) -> str:
        """Return the precision to load the weights in: OpenVINO makes its own of float32."""
        return "float32" if self._by_openvino else self.dtype

    def score(self, pairs: Sequence[tuple[str, Passage]]) -> NDArray[np.float32]:
        """Return (pairs,) float32 log-odds; equal pairs are scored once.

        With OpenVINO the weights are those of the first call.
        """
        if self._lm is None:
            keep_freed_memory()
        self._check_sizes()
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
                laid_out = self.lay_out([rows[n] for n in batch], [starts[n] for n in batch])
                found[batch] = self._log_odds(laid_out).float().cpu().numpy()
            if self.advance:
                self.advance(len(batch))
        if np.isnan(found).any():
            bad = distinct[int(np.isnan(found).argmax())]
            raise ModelError(
                f"{self.path} gave NaN for question {bad[0]!r}, passage {bad[1].passage_id!r}; try dtype=float32."
            )
        return found[[place[pair] for pair in pairs]] if pairs else found

    def judge(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Judgement:
        """Judge a batch of token rows with PyTorch; `starts` are the positions at which the passages begin."""
        laid_out = self.lay_out(rows, starts)
        return self.conclude(self.encode(*laid_out), *laid_out)

    @abstractmethod
    def lay_out(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Batch:
        """Pad a batch of token rows, and bring it to the device."""

    @abstractmethod
    def encode(self, *laid_out: torch.Tensor) -> torch.Tensor:
        """Run the layers, where the time goes; a function of tensors alone, of any batch size and length."""

    @abstractmethod
    def conclude(self, encoded: torch.Tensor, *laid_out: torch.Tensor) -> Judgement:
        """Judge by what the layers gave, in float32."""

    def _log_odds(self, laid_out: Batch) -> torch.Tensor:
        if self._by_openvino:
            encode, conclude = self._compiled
            return conclude(encode(*laid_out), *laid_out)
        return self.conclude(self.encode(*laid_out), *laid_out).log_odds

    @cached_property
    def _by_openvino(self) -> bool:
        return resolve_runtime(self.runtime, self.device, self.dtype) == "openvino"

    def _check_sizes(self) -> None:
        """Refuse what a model cannot read; PyTorch tells of a token out of range, OpenVINO does not."""
        if self.max_length > self.lm.window:
            raise ConfigError(f"estimator: max_length={self.max_length}, and {self.path} reads {self.lm.window} tokens.")
        table: Any = self.lm.model.get_input_embeddings()
        known = table.weight.shape[0]
        if self._by_openvino and len(self.lm.tokenizer) > known:
            raise ModelError(
                f"The tokenizer of {self.path} has {len(self.lm.tokenizer)} tokens, the model {known}. "
                "Set estimator.engine.runtime=torch."
            )

    @cached_property
    def _compiled(self) -> tuple[Compiled, Compiled]:
        """Return `encode` and `conclude` as OpenVINO runs them, the latter in float32 whatever the precision of the layers."""
        longest = self.max_length
        example, other = (
            self.lay_out([[1] * length for length in lengths], [3] * len(lengths))
            for lengths in ((8, 6), (longest, min(7, longest), longest // 2 + 1))
        )
        model, name = self.lm.model, self.path
        layers = Compiled(model, self.encode, example, other, resolve_dtype(self.dtype, "cpu"), name)
        encoded, once_more = ((self.encode(*batch), *batch) for batch in (example, other))
        return layers, Compiled(model, lambda *given: self.conclude(*given).log_odds, encoded, once_more, "float32", name)


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
