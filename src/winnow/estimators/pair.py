"""Base classes of estimators that read question and passage together: distinct pairs, token-budget batches, scoring.

Scoring and training (with gradients) use the same functions. If OpenVINO runs them, results agree up to rounding.
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

_WORDS_HINT = "Choose two other words in estimator.engine.label_words, for example [yes, no]."
Advance = Callable[[int], None]
Batch = tuple[torch.Tensor, ...]
"""The inputs of an estimator's functions: (B, T) token ids, (B, T) mask, and further tensors that a model needs."""


@dataclass(frozen=True, slots=True)
class PairScores:
    """The scores of a batch: (pairs,) log-odds of "true" against "false"."""

    log_odds: torch.Tensor
    other: torch.Tensor
    """(pairs,) total probability of all other tokens (RE-RAG eq. 11). It is zero for a classifier."""


@dataclass
class PairEstimator(PairModel):
    """Base class of estimators on this machine. Subclasses define loading, collation, the layers and the log-odds.

    Args:
        batch_tokens: Maximum number of padded tokens per batch.
        runtime: "torch", "openvino" (CPU only) or "auto" (openvino on a CPU if it is installed, except in float16).
        advance: Progress callback, which receives the number of pairs in each scored batch.

    """

    speed_only: ClassVar[Mapping[str, str]] = {"batch_tokens": "batches affect scores only by rounding"}

    batch_tokens: int = 4096
    runtime: str = "torch"
    advance: Advance | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raise ConfigError if a size is below 1."""
        if min(self.max_length, self.batch_tokens) < 1:
            raise ConfigError(
                f"estimator: max_length and batch_tokens start at 1; received {self.max_length}, {self.batch_tokens}."
            )

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with "auto" resolved for this machine, in dtype and runtime."""
        settings = super().resolve_settings(settings)
        name, device = str(settings.get("runtime", cls.runtime)), str(settings.get("device", "auto"))
        runtime = resolve_runtime(name, device, settings["dtype"])
        return {**settings, "runtime": runtime}

    @property
    def loading_dtype(self) -> str:
        """Return the precision of the loaded weights, which is float32 for OpenVINO, because it converts them itself."""
        return "float32" if self._uses_openvino else self.dtype

    def score(self, pairs: Sequence[tuple[str, Passage]]) -> NDArray[np.float32]:
        """Compute the (pairs,) float32 log-odds. Equal pairs are scored once.

        With OpenVINO, later calls use the weights of the first call.
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
        """Score a batch of token rows with PyTorch. `starts` are the positions at which the passages start."""
        inputs = self.collate(rows, starts)
        return self.compute_log_odds(self.encode(*inputs), *inputs)

    @abstractmethod
    def collate(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Batch:
        """Pad a batch of token rows and move it to the device."""

    @abstractmethod
    def encode(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Run the layers. The function depends only on its tensors, and is valid for any batch size and length."""

    @abstractmethod
    def compute_log_odds(self, encoded: torch.Tensor, *inputs: torch.Tensor) -> PairScores:
        """Compute the scores from the output of the layers, in float32."""

    def _log_odds(self, inputs: Batch) -> torch.Tensor:
        if self._uses_openvino:
            encode, compute_log_odds = self._compiled
            return compute_log_odds(encode(*inputs), *inputs)
        return self.compute_log_odds(self.encode(*inputs), *inputs).log_odds

    @cached_property
    def _uses_openvino(self) -> bool:
        return resolve_runtime(self.runtime, self.device, self.dtype) == "openvino"

    def _check_sizes(self) -> None:
        """Raise an error for inputs beyond the embedding tables. PyTorch would raise one too, but OpenVINO would not."""
        if self.max_length > self.lm.context_length:
            raise ConfigError(
                f"estimator: max_length={self.max_length}, and {self.path} reads {self.lm.context_length} tokens."
            )
        embeddings: Any = self.lm.model.get_input_embeddings()
        vocabulary_size = embeddings.weight.shape[0]
        if self._uses_openvino and len(self.lm.tokenizer) > vocabulary_size:
            raise ModelError(
                f"The tokenizer of {self.path} has {len(self.lm.tokenizer)} tokens, the model {vocabulary_size}. "
                "Set estimator.engine.runtime=torch."
            )

    @cached_property
    def _compiled(self) -> tuple[CompiledFunction, CompiledFunction]:
        """Compile `encode` and `compute_log_odds` with OpenVINO, the latter always in float32."""
        longest = self.max_length
        example, other = (
            self.collate([[1] * length for length in lengths], [3] * len(lengths))
            for lengths in ((8, 6), (longest, min(7, longest), longest // 2 + 1))
        )
        model, name = self.lm.model, self.path
        layers = CompiledFunction(model, self.encode, example, other, resolve_dtype(self.dtype, "cpu"), name)
        head_example, head_other = ((self.encode(*batch), *batch) for batch in (example, other))

        def head(*inputs: torch.Tensor) -> torch.Tensor:
            return self.compute_log_odds(*inputs).log_odds

        return layers, CompiledFunction(model, head, head_example, head_other, "float32", name)


@dataclass
class WordEstimator(PairEstimator):
    """Base class of estimators that generate a word: `label_words` are the tokens for relevant and not relevant passages."""

    label_words: Sequence[str] = ("true", "false")

    @cached_property
    def _word_ids(self) -> tuple[int, int]:
        true_id, false_id = (single_token(self.lm.tokenizer, word, _WORDS_HINT) for word in self.label_words)
        return true_id, false_id

    def scores_from_logits(self, logits_BV: torch.Tensor) -> PairScores:
        """Compute the scores from the logits at the position of the generated word."""
        return word_scores(logits_BV, *self._word_ids)


def word_scores(logits_BV: torch.Tensor, true_id: int, false_id: int) -> PairScores:
    """Compute the scores from the vocabulary's logits at one position (RE-RAG eqs. 3, 4 and 11).

    The log-odds log(RE / (1 - RE)) of eq. 4 equal the difference of the two logits. It stays finite when RE rounds to 0 or 1.
    """
    logits: Any = logits_BV.float()
    log_mass = torch.logsumexp(logits[:, [true_id, false_id]], dim=-1)
    other = 1 - torch.exp(log_mass - torch.logsumexp(logits, dim=-1))
    return PairScores(logits[:, true_id] - logits[:, false_id], other)
