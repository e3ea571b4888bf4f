"""Shared by estimators that read question and passage together: distinct pairs, token-budget batches, scoring and training.

The same functions score and are trained (with gradients). Where OpenVINO runs them, results agree up to rounding.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from winnow.errors import ConfigError, ModelError
from winnow.modeling.loading import keep_freed_memory, resolve_dtype, resolve_runtime
from winnow.modeling.openvino import CompiledFunction
from winnow.modeling.pair_inputs import budget_batches
from winnow.modeling.pair_model import PairModel
from winnow.modeling.tokens import single_token

if TYPE_CHECKING:
    from winnow.records import Passage

_WORDS_HINT = "Choose two other words in estimator.engine.words, for example [yes, no]."
Advance = Callable[[int], None]
Batch = tuple[torch.Tensor, ...]
"""The inputs of an estimator's functions: (B, T) token ids, (B, T) mask, and what else a kind of model needs."""


@dataclass(frozen=True, slots=True)
class PairScores:
    """The scores of a batch: (pairs,) log-odds of "true" against "false"."""

    log_odds: torch.Tensor
    other: torch.Tensor
    """(pairs,) probability of all other tokens (RE-RAG eq. 11); zero for a classifier with two classes."""


@dataclass
class PairEstimator(PairModel):
    """An estimator over weights on this machine; subclasses define loading, collation, the layers and the log-odds.

    Args:
        batch_tokens: padded tokens per batch, at most.
        runtime: what scores: "torch", "openvino" (on a CPU), or "auto" (openvino there if it is installed).
        advance: receives how many more pairs are scored.

    """

    speed_only: ClassVar[Mapping[str, str]] = {"batch_tokens": "batches change no score but by rounding"}

    batch_tokens: int = 4096
    runtime: str = "torch"
    advance: Advance | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        if min(self.max_length, self.batch_tokens) < 1:
            raise ConfigError(
                f"estimator: max_length and batch_tokens start at 1; received {self.max_length}, {self.batch_tokens}."
            )

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with the precision and the runtime that "auto" means on this machine."""
        settings = super().resolve_settings(settings)
        name, device = str(settings.get("runtime", cls.runtime)), str(settings.get("device", "auto"))
        runtime = resolve_runtime(name, device, settings["dtype"])
        return {**settings, "runtime": runtime}

    @property
    def loading_dtype(self) -> str:
        """Return the precision in which the weights are loaded: OpenVINO converts from float32."""
        return "float32" if self._uses_openvino else self.dtype

    def score(self, pairs: Sequence[tuple[str, Passage]]) -> NDArray[np.float32]:
        """Return (pairs,) float32 log-odds; equal pairs are scored once.

        OpenVINO keeps the weights of the first call.
        """
        if self._lm is None:
            keep_freed_memory()
        self._check_sizes()
        index: dict[tuple[str, Passage], int] = {}
        for pair in pairs:
            index.setdefault(pair, len(index))
        distinct = list(index)
        self.tokens.prepare(distinct)
        rows = [self.tokens.encode(*pair) for pair in distinct]
        starts = [self.tokens.passage_start(question) for question, _ in distinct]
        scores = np.zeros(len(rows), dtype=np.float32)
        for batch in budget_batches([len(row) for row in rows], self.batch_tokens):
            with torch.inference_mode():
                inputs = self.collate([rows[n] for n in batch], [starts[n] for n in batch])
                scores[batch] = self._log_odds(inputs).float().cpu().numpy()
            if self.advance:
                self.advance(len(batch))
        if np.isnan(scores).any():
            question, passage = distinct[int(np.isnan(scores).argmax())]
            raise ModelError(
                f"{self.path} gave NaN for question {question!r}, passage {passage.passage_id!r}; try dtype=float32."
            )
        return scores[[index[pair] for pair in pairs]] if pairs else scores

    def estimate(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> PairScores:
        """Score a batch of token rows with PyTorch; `starts` are the positions at which the passages begin."""
        inputs = self.collate(rows, starts)
        return self.compute_log_odds(self.encode(*inputs), *inputs)

    @abstractmethod
    def collate(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Batch:
        """Pad a batch of token rows, and move it to the device."""

    @abstractmethod
    def encode(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Run the layers: a function of tensors alone, valid for any batch size and length."""

    @abstractmethod
    def compute_log_odds(self, encoded: torch.Tensor, *inputs: torch.Tensor) -> PairScores:
        """Return the scores from the output of the layers, in float32."""

    def _log_odds(self, inputs: Batch) -> torch.Tensor:
        if self._uses_openvino:
            encode, compute_log_odds = self._compiled
            return compute_log_odds(encode(*inputs), *inputs)
        return self.compute_log_odds(self.encode(*inputs), *inputs).log_odds

    @cached_property
    def _uses_openvino(self) -> bool:
        return resolve_runtime(self.runtime, self.device, self.dtype) == "openvino"

    def _check_sizes(self) -> None:
        """Refuse inputs beyond the model's tables; PyTorch would raise for them, OpenVINO would not."""
        if self.max_length > self.lm.window:
            raise ConfigError(f"estimator: max_length={self.max_length}, and {self.path} reads {self.lm.window} tokens.")
        table: Any = self.lm.model.get_input_embeddings()
        size = table.weight.shape[0]
        if self._uses_openvino and len(self.lm.tokenizer) > size:
            raise ModelError(
                f"The tokenizer of {self.path} has {len(self.lm.tokenizer)} tokens, the model {size}. "
                "Set estimator.engine.runtime=torch."
            )

    @cached_property
    def _compiled(self) -> tuple[CompiledFunction, CompiledFunction]:
        """Return `encode` and `compute_log_odds` compiled by OpenVINO, the latter always in float32."""
        longest = self.max_length
        example, other = (
            self.collate([[1] * length for length in lengths], [3] * len(lengths))
            for lengths in ((8, 6), (longest, min(7, longest), longest // 2 + 1))
        )
        model, name = self.lm.model, self.path
        layers = CompiledFunction(model, self.encode, example, other, resolve_dtype(self.dtype, "cpu"), name)
        encoded, encoded_other = ((self.encode(*batch), *batch) for batch in (example, other))

        def head(*inputs: torch.Tensor) -> torch.Tensor:
            return self.compute_log_odds(*inputs).log_odds

        return layers, CompiledFunction(model, head, encoded, encoded_other, "float32", name)


@dataclass
class WordEstimator(PairEstimator):
    """An estimator that classifies by a generated word: `words` are the tokens for relevant and not relevant."""

    words: Sequence[str] = ("true", "false")

    @cached_property
    def _word_ids(self) -> tuple[int, int]:
        true, false = (single_token(self.lm.tokenizer, word, _WORDS_HINT) for word in self.words)
        return true, false

    def scores_from_logits(self, logits_BV: torch.Tensor) -> PairScores:
        """Return the scores in the logits of the position at which the word is generated."""
        return word_scores(logits_BV, *self._word_ids)


def word_scores(logits_BV: torch.Tensor, true: int, false: int) -> PairScores:
    """Return the scores in a vocabulary's logits at one position (RE-RAG eqs. 3, 4 and 11).

    log(RE / (1 - RE)) of eq. 4 is the difference of the two logits, which stays finite where RE rounds to 0 or 1.
    """
    logits: Any = logits_BV.float()
    both = torch.logsumexp(logits[:, [true, false]], dim=-1)
    other = 1 - torch.exp(both - torch.logsumexp(logits, dim=-1))
    return PairScores(logits[:, true] - logits[:, false], other)
