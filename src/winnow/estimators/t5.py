"""RE-RAG's estimator: a T5 that first generates "true" or "false" (eq. 3, as in monoT5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from winnow.estimators.pair import Batch, PairScores, WordEstimator
from winnow.modeling.loading import LanguageModel, load_seq2seq
from winnow.modeling.pair_inputs import PairTokenizer
from winnow.modeling.pair_model import build_seq2seq_tokenizer, collate_rows

if TYPE_CHECKING:
    import torch


@dataclass
class T5Estimator(WordEstimator):
    """A T5 that scores pairs with one pass of the encoder and one step of the decoder.

    `dtype` applies to the layers of the encoder, which take most of the time. The decoder and the
    embeddings, and therefore the residual stream, stay in float32. The rank correlation with the
    scores of a float32 model is then 0.9999. With all weights in bfloat16, it is 0.998.
    """

    revision: ClassVar[int] = 3

    def load(self) -> LanguageModel:
        """Load the model and its tokenizer."""
        from winnow.modeling import first_step

        lm = load_seq2seq(self.path, self.loading_dtype, self.device)
        if first_step.has_t5_decoder(lm.model):
            model: Any = lm.model
            for module in (model.decoder, model.shared, model.lm_head):
                module.float()
        return lm

    def build_pair_tokenizer(self) -> PairTokenizer:
        """Create a tokenizer that ends each pair with the end-of-sequence token."""
        return build_seq2seq_tokenizer(self)

    def collate(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Batch:  # noqa: ARG002 (a pair is one text)
        """Pad the token ids, and build their attention mask."""
        return collate_rows(self, rows)

    def encode(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Compute the output of the encoder (B, T, D).

        For models whose decoder differs from T5's, compute the logits of the first decoder step (B,
        V) instead.
        """
        import torch

        from winnow.modeling import first_step

        ids, mask = inputs
        model: Any = self.lm.model
        if first_step.has_t5_decoder(model):
            encoding: torch.Tensor = model.encoder(
                input_ids=ids, attention_mask=mask
            ).last_hidden_state
            return encoding
        start = torch.full(
            (ids.shape[0], 1), model.config.decoder_start_token_id, device=ids.device
        )
        logits: torch.Tensor = model(
            input_ids=ids, attention_mask=mask, decoder_input_ids=start, use_cache=False
        ).logits
        return logits[:, 0]

    def compute_log_odds(self, encoded: torch.Tensor, *inputs: torch.Tensor) -> PairScores:
        """Compute the scores from the two label words' logits at the first decoder position."""
        from winnow.modeling import first_step

        model: Any = self.lm.model
        if not first_step.has_t5_decoder(model):
            return self.score_logits(encoded)
        hidden_states = first_step.compute_first_hidden(
            model, encoded.to(model.shared.weight.dtype), inputs[1]
        )
        return self.score_logits(model.lm_head(hidden_states))
