"""A decoder-only estimator: what the model says after the pair, "true" or "false"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from winnow.errors import ConfigError
from winnow.estimators.pair import Batch, Judgement, WordEstimator
from winnow.models import LanguageModel, load_causal_lm
from winnow.pair_model import causal_tokens
from winnow.pairs import PairForm, PairTokens, padded


@dataclass
class CausalEstimator(WordEstimator):
    """Scores by the logits at the last position, which alone are computed; takes GGUF files too."""

    form: PairForm = field(default_factory=lambda: PairForm(suffix=" relevant:"))
    words: Sequence[str] = (" true", " false")

    def __post_init__(self) -> None:
        """Refuse OpenVINO, whose attention gives NaN in rows that are padded on the left."""
        super().__post_init__()
        if self.runtime == "openvino":
            raise ConfigError("A causal estimator runs with runtime=torch alone; received 'openvino'.")
        self.runtime = "torch"

    def load(self) -> LanguageModel:
        """Load model and tokenizer."""
        return load_causal_lm(self.path, self.dtype, self.device)

    def tokeniser(self) -> PairTokens:
        """End each pair with the form's suffix."""
        return causal_tokens(self)

    def lay_out(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Batch:  # noqa: ARG002 (one text to it)
        """Return token ids and mask, padded on the left."""
        ids, mask = padded(rows, int(self.lm.tokenizer.pad_token_id), left=True)
        return ids.to(self.lm.device), mask.to(self.lm.device)

    def encode(self, *laid_out: torch.Tensor) -> torch.Tensor:
        """Return the (B, V) logits after the last token."""
        ids, mask = laid_out
        made = self.lm.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0),
            logits_to_keep=1,
            use_cache=False,
        )
        logits: torch.Tensor = made.logits[:, -1]
        return logits

    def conclude(self, encoded: torch.Tensor, *laid_out: torch.Tensor) -> Judgement:  # noqa: ARG002 (they say it all)
        """Read the two tokens' logits."""
        return self.read(encoded)
