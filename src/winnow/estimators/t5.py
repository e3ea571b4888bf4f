"""RE-RAG's estimator: a T5 whose first written token says "true" or "false" (eq. 3, after monoT5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from winnow.estimators import first_step
from winnow.estimators.pair import Batch, Judgement, WordEstimator
from winnow.models import LanguageModel, load_seq2seq
from winnow.pair_model import seq2seq_tokens
from winnow.pairs import PairTokens, padded


@dataclass
class T5Estimator(WordEstimator):
    """Scores by one pass of the encoder and one step of the decoder.

    `dtype` is that of the encoder's layers, where the time goes. Embeddings, and with them the sum that the layers add to,
    and the decoder stay in float32: all in bfloat16, scores of random weights rank at 0.998 of float32's, this way at 0.9999.
    """

    def load(self) -> LanguageModel:
        """Load model and tokenizer."""
        lm = load_seq2seq(self.path, self.loading_dtype, self.device)
        if first_step.takes(lm.model):
            model: Any = lm.model
            for part in (model.decoder, model.shared, model.lm_head):
                part.float()
        return lm

    def tokeniser(self) -> PairTokens:
        """End each pair with the end token."""
        return seq2seq_tokens(self)

    def lay_out(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Batch:  # noqa: ARG002 (one text to T5)
        """Return token ids and mask."""
        ids, mask = padded(rows, int(self.lm.tokenizer.pad_token_id))
        return ids.to(self.lm.device), mask.to(self.lm.device)

    def encode(self, *laid_out: torch.Tensor) -> torch.Tensor:
        """Return the encoder's (B, T, D) output; of a decoder that is not T5's, the (B, V) logits of its first step."""
        ids, mask = laid_out
        model: Any = self.lm.model
        if first_step.takes(model):
            encoded: torch.Tensor = model.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
            return encoded
        start = torch.full((ids.shape[0], 1), model.config.decoder_start_token_id, device=ids.device)
        logits: torch.Tensor = model(input_ids=ids, attention_mask=mask, decoder_input_ids=start, use_cache=False).logits
        return logits[:, 0]

    def conclude(self, encoded: torch.Tensor, *laid_out: torch.Tensor) -> Judgement:
        """Read the two tokens' logits at the first decoder position."""
        model: Any = self.lm.model
        if not first_step.takes(model):
            return self.read(encoded)
        hidden = first_step.first_hidden(model, encoded.to(model.shared.weight.dtype), laid_out[1])
        return self.read(model.lm_head(hidden))
