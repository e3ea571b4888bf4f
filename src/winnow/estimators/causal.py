"""A decoder-only estimator: what the model says after the pair, "true" or "false"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from winnow.estimators.pair import Judgement, WordEstimator
from winnow.models import LanguageModel, load_causal_lm
from winnow.pair_model import causal_tokens
from winnow.pairs import PairForm, PairTokens, padded


@dataclass
class CausalEstimator(WordEstimator):
    """Scores by the logits at the last position, which alone are computed; takes GGUF files too."""

    form: PairForm = field(default_factory=lambda: PairForm(suffix=" relevant:"))
    words: Sequence[str] = (" true", " false")

    def load(self) -> LanguageModel:
        """Load model and tokenizer."""
        return load_causal_lm(self.path, self.dtype, self.device)

    def tokeniser(self) -> PairTokens:
        """End each pair with the form's suffix."""
        return causal_tokens(self)

    def judge(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Judgement:  # noqa: ARG002 (one text to it)
        """Read the two tokens' logits after the last token; rows are padded on the left."""
        ids, mask = padded(rows, int(self.lm.tokenizer.pad_token_id), left=True)
        device = self.lm.device
        made = self.lm.model(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0).to(device),
            logits_to_keep=1,
            use_cache=False,
        )
        return self.read(made.logits[:, -1])
