"""Base classes of relevance estimators that read question and passage together in one model.

They score each distinct pair once, in batches limited by their number of tokens. Training uses the
same functions, with gradients. If OpenVINO runs them, the scores are the same up to rounding. The
suffixes of tensor names are dimensions: B for pairs, T for tokens and V for the vocabulary.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from winnow.errors import ConfigError, ModelError, NoScoreError
from winnow.identity.markers import SpeedOnly
from winnow.identity.values import check_values
from winnow.modeling.devices import resolve_dtype, resolve_runtime
from winnow.modeling.loading import keep_freed_memory
from winnow.modeling.memory_budget import MemoryBudget
from winnow.modeling.pair_model import PairModel
from winnow.modeling.tokens import get_single_token_id

if TYPE_CHECKING:
    import torch

    from winnow.modeling.openvino_function import CompiledFunction
    from winnow.records import Passage

_WORDS_HINT = "Choose two other words in estimator.engine.label_words, for example [yes, no]."
Batch: TypeAlias = "tuple[torch.Tensor, ...]"
"""Model inputs of a batch: token ids and attention mask, both (B, T), and any further tensors."""


@dataclass(frozen=True, slots=True)
class PairScores:
    """The scores of a batch of pairs.

    Attributes:
        log_odds: Log-odds (pairs,) of "true" against "false".
        other_probability: Total probability (pairs,) of all tokens other than "true" and "false"
            (RE-RAG eq. 11). It is zero for a classifier.
    """

    log_odds: torch.Tensor
    other_probability: torch.Tensor


@dataclass
class PairEstimator(PairModel):
    """Base class of estimators that run a model on this machine.

    Subclasses implement `load`, `build_pair_tokenizer`, `collate`, `encode` and `compute_log_odds`.

    Args:
        batch_tokens: Maximum number of padded tokens per batch. It is lowered if a GPU has too
            little memory.
        runtime: "torch", "openvino" (CPU only) or "auto" (OpenVINO on a CPU if it is installed,
            except in float16).
    """

    batch_tokens: Annotated[int, Ge(1), SpeedOnly("batches affect scores only by rounding")] = 4096
    runtime: str = "torch"

    def __post_init__(self) -> None:
        check_values("estimator.engine", self)

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with "auto" of dtype and runtime resolved for this machine."""
        settings = super().resolve_settings(settings)
        runtime, device = (
            str(settings.get("runtime", cls.runtime)),
            str(settings.get("device", "auto")),
        )
        return {**settings, "runtime": resolve_runtime(runtime, device, settings["dtype"])}

    @property
    def software(self) -> str:
        """Return the library that computes the scores, and its version."""
        library = "openvino" if self._uses_openvino else "torch"
        return f"{library} {version(library)}"

    @property
    def loading_dtype(self) -> str:
        """Return the dtype to load weights in: float32 for OpenVINO, which converts them itself."""
        return "float32" if self._uses_openvino else self.dtype

    def score(self, pairs: Sequence[tuple[str, Passage]]) -> NDArray[np.float32]:
        """Compute the (pairs,) float32 log-odds of the pairs. Equal pairs are scored once.

        With OpenVINO, the weights are compiled in the first call; later changes to them have no
        effect.

        Raises:
            NoScoreError: If a score is NaN.
        """
        import torch

        if self._lm is None:
            keep_freed_memory()
        self._check_sizes()
        row_of_pair: dict[tuple[str, Passage], int] = {}
        for pair in pairs:
            row_of_pair.setdefault(pair, len(row_of_pair))
        distinct_pairs = list(row_of_pair)
        self.tokens.prepare(distinct_pairs)
        rows = [self.tokens.encode(*pair) for pair in distinct_pairs]
        starts = [self.tokens.get_second_start(*pair) for pair in distinct_pairs]
        scores = np.zeros(len(rows), dtype=np.float32)

        def score_batch(indices: Sequence[int]) -> torch.Tensor:
            with torch.inference_mode():
                inputs = self.collate(
                    [rows[index] for index in indices], [starts[index] for index in indices]
                )
                return self._log_odds(inputs).to(
                    torch.float32, copy=True
                )  # OpenVINO uses its memory again

        for indices, log_odds in self._budget.run_rows(score_batch, [len(row) for row in rows]):
            scores[list(indices)] = log_odds.cpu().numpy()
        if np.isnan(scores).any():
            question, passage = distinct_pairs[int(np.isnan(scores).argmax())]
            raise NoScoreError(
                f"{self.path} gave NaN for question {question!r} and passage "
                f"{passage.passage_id!r}. Set estimator.engine.dtype=float32."
            )
        return scores[[row_of_pair[pair] for pair in pairs]] if pairs else scores

    def estimate(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> PairScores:
        """Score a batch of tokenized pairs with PyTorch, with gradients if they are enabled.

        Args:
            rows: Token ids of each pair.
            starts: Position of the first token of the second text in each pair (see
                `PairTokenizer.get_second_start`).
        """
        inputs = self.collate(rows, starts)
        return self.compute_log_odds(self.encode(*inputs), *inputs)

    @abstractmethod
    def collate(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Batch:
        """Pad token ids and move them to the model's device; for the arguments, see `estimate`."""

    @abstractmethod
    def encode(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Run the model's layers. This must be traceable: valid for any batch size and length."""

    @abstractmethod
    def compute_log_odds(self, encoded: torch.Tensor, *inputs: torch.Tensor) -> PairScores:
        """Compute the scores in float32 from the output of `encode` and the inputs of the model."""

    def _log_odds(self, inputs: Batch) -> torch.Tensor:
        """Compute the log-odds of a batch with the chosen runtime."""
        if self._uses_openvino:
            encode, compute_log_odds = self._compiled
            return compute_log_odds(encode(*inputs), *inputs)
        return self.compute_log_odds(self.encode(*inputs), *inputs).log_odds

    @cached_property
    def _budget(self) -> MemoryBudget:
        """The limit on padded tokens per batch, which is lowered if GPU memory is insufficient."""
        return MemoryBudget(self.batch_tokens, "estimator.engine.batch_tokens")

    @cached_property
    def _uses_openvino(self) -> bool:
        return resolve_runtime(self.runtime, self.device, self.dtype) == "openvino"

    def check_trained(self) -> None:
        """Raise ModelError if the model has a new classifier, whose scores would be random."""
        if self.lm.has_new_weights:
            raise ModelError(
                f"{self.path} has no classifier, so that its scores would be random. Train it "
                "(estimator.trained=true), or choose a model that has one."
            )

    def _check_sizes(self) -> None:
        """Raise an error for ids or positions beyond the embeddings; OpenVINO would raise none."""
        if self.max_length > self.lm.context_length:
            raise ConfigError(
                f"estimator.engine.max_length={self.max_length} exceeds the "
                f"{self.lm.context_length} tokens that {self.path} reads. Lower "
                "estimator.engine.max_length."
            )
        embeddings: Any = self.lm.model.get_input_embeddings()
        vocabulary_size = embeddings.weight.shape[0]
        if self._uses_openvino and len(self.lm.tokenizer) > vocabulary_size:
            raise ModelError(
                f"The tokenizer of {self.path} has {len(self.lm.tokenizer)} tokens, but the model "
                f"has embeddings for only {vocabulary_size}. Set estimator.engine.runtime=torch."
            )

    @cached_property
    def _compiled(self) -> tuple[CompiledFunction, CompiledFunction]:
        """Compile `encode` and `compute_log_odds` with OpenVINO, the latter always in float32.

        The functions are traced with one batch and checked with another of different size and
        lengths.
        """
        from winnow.modeling.openvino_function import CompiledFunction

        longest = self.max_length
        example, check = (
            self.collate([[1] * length for length in lengths], [3] * len(lengths))
            for lengths in ((8, 6), (longest, min(7, longest), longest // 2 + 1))
        )
        model, name = self.lm.model, self.path
        encode = CompiledFunction(
            model, self.encode, example, check, resolve_dtype(self.dtype, "cpu"), name
        )
        head_example, head_check = ((self.encode(*batch), *batch) for batch in (example, check))

        def head(*inputs: torch.Tensor) -> torch.Tensor:
            return self.compute_log_odds(*inputs).log_odds

        return encode, CompiledFunction(model, head, head_example, head_check, "float32", name)


@dataclass
class WordEstimator(PairEstimator):
    """Base class of estimators that generate a word.

    Args:
        label_words: Words for relevant and not relevant passages, in this order. Each must be a
            single token.
    """

    label_words: Sequence[str] = ("true", "false")

    @cached_property
    def _word_ids(self) -> tuple[int, int]:
        """Return the token ids of the two label words."""
        true_id, false_id = (
            get_single_token_id(self.lm.tokenizer, word, _WORDS_HINT) for word in self.label_words
        )
        return true_id, false_id

    def score_logits(self, logits_BV: torch.Tensor) -> PairScores:
        """Compute the scores from the logits (B, V) at the position of the generated word."""
        return compute_word_scores(logits_BV, *self._word_ids)


def compute_word_scores(logits_BV: torch.Tensor, true_id: int, false_id: int) -> PairScores:
    """Compute the scores from the vocabulary logits at one position (RE-RAG eqs. 3, 4 and 11).

    With the relevance RE of eq. 3, the log-odds log(RE / (1 - RE)) of eq. 4 equal the difference of
    the two logits. The difference stays finite when RE rounds to 0 or 1.

    Args:
        logits_BV: Logits of every token.
        true_id: Token id of the word for relevant passages.
        false_id: Token id of the word for passages that are not relevant.
    """
    logits: Any = logits_BV.float()
    log_sum_of_words = logits[:, [true_id, false_id]].logsumexp(dim=-1)
    probability_of_others = 1 - (log_sum_of_words - logits.logsumexp(dim=-1)).exp()
    return PairScores(logits[:, true_id] - logits[:, false_id], probability_of_others)
