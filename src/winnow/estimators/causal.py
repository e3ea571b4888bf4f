"""A decoder-only estimator, which predicts "true" or "false" after the pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from winnow.errors import ConfigError
from winnow.estimators.pair import Batch, PairScores, WordEstimator
from winnow.modeling.loading import LanguageModel, load_causal_lm
from winnow.modeling.pair_inputs import PairTemplate, PairTokens, padded
from winnow.modeling.pair_model import causal_tokens


@dataclass
class CausalEstimator(WordEstimator):
    """Scores pairs by the logits at the last position, and computes no others. GGUF files are supported too."""

    revision: ClassVar[int] = 1

    template: PairTemplate = field(default_factory=lambda: PairTemplate(suffix=" relevant:"))
    label_words: Sequence[str] = (" true", " false")

    def __post_init__(self) -> None:
        """Raise ConfigError for OpenVINO, whose attention gives NaN for rows padded on the left."""
        super().__post_init__()
        if self.runtime == "openvino":
            raise ConfigError("A causal estimator supports runtime=torch only; received 'openvino'.")
        self.runtime = "torch"

    def load(self) -> LanguageModel:
        """Load the model and its tokenizer."""
        return load_causal_lm(self.path, self.dtype, self.device)

    def pair_tokenizer(self) -> PairTokens:
        """Create a tokenizer that ends each pair with the form's suffix."""
        return causal_tokens(self)

    def collate(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Batch:  # noqa: ARG002 (a pair is one text)
        """Pad token ids and mask on the left."""
        ids, mask = padded(rows, int(self.lm.tokenizer.pad_token_id), left=True)
        return ids.to(self.lm.device), mask.to(self.lm.device)

    def encode(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Compute the (B, V) logits of the token after the pair."""
        ids, mask = inputs
        output = self.lm.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0),
            logits_to_keep=1,
            use_cache=False,
        )
        logits: torch.Tensor = output.logits[:, -1]
        return logits

    def compute_log_odds(self, encoded: torch.Tensor, *inputs: torch.Tensor) -> PairScores:  # noqa: ARG002 (the logits suffice)
        """Compute the scores from the logits of the two words."""
        return self.scores_from_logits(encoded)
