"""A decoder-only relevance estimator that predicts "true" or "false" after question and passage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from winnow.errors import ConfigError
from winnow.estimators.pair import Batch, PairScores, WordEstimator
from winnow.modeling.loading import LanguageModel, load_causal_lm
from winnow.modeling.pair_inputs import PairTemplate, PairTokenizer
from winnow.modeling.pair_model import build_causal_tokenizer, collate_rows

if TYPE_CHECKING:
    import torch


@dataclass
class CausalEstimator(WordEstimator):
    """A decoder-only estimator that computes only the last position's logits to score pairs.

    The model may also be a GGUF file. Only runtime "torch" is supported; "auto" means the same.

    Args:
        template: Templates of question and passage. `suffix` ends the input, so that the model
            continues with a label word.
        label_words: Words for relevant and not relevant passages, each a single token.
    """

    revision: ClassVar[int] = 1

    template: PairTemplate = field(default_factory=lambda: PairTemplate(suffix=" relevant:"))
    label_words: Sequence[str] = (" true", " false")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.runtime == "openvino":
            raise ConfigError(
                "A causal estimator supports runtime=torch only; received 'openvino'. Set "
                "estimator.engine.runtime=torch."
            )
        self.runtime = "torch"

    def load(self) -> LanguageModel:
        """Load the model and its tokenizer."""
        return load_causal_lm(self.path, self.dtype, self.device)

    def build_pair_tokenizer(self) -> PairTokenizer:
        """Create a tokenizer that ends each pair with the suffix of the template."""
        return build_causal_tokenizer(self)

    def collate(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Batch:  # noqa: ARG002 (a pair is one text)
        """Pad the token ids on the left, and build their attention mask."""
        return collate_rows(self, rows, left=True)

    def encode(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Compute the logits (B, V), over the vocabulary, of the token after each pair."""
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
        """Compute the scores from the logits of the two label words."""
        return self.score_logits(encoded)
