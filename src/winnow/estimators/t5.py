"""RE-RAG's estimator: a T5 whose first written token says "true" or "false" (eq. 3, after monoT5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from winnow.estimators import first_step
from winnow.estimators.pair import Judgement, WordEstimator
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
        lm = load_seq2seq(self.path, self.dtype, self.device)
        if first_step.takes(lm.model):
            model: Any = lm.model
            for part in (model.decoder, model.shared, model.lm_head):
                part.float()
        return lm

    def tokeniser(self) -> PairTokens:
        """End each pair with the end token."""
        return seq2seq_tokens(self)

    def judge(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Judgement:  # noqa: ARG002 (one text to T5)
        """Read the two tokens' logits at the first decoder position."""
        ids, mask = (one.to(self.lm.device) for one in padded(rows, int(self.lm.tokenizer.pad_token_id)))
        model: Any = self.lm.model
        if first_step.takes(model):
            encoded = model.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
            hidden = first_step.first_hidden(model, encoded.to(model.shared.weight.dtype), mask)
            return self.read(model.lm_head(hidden))
        start = torch.full((len(rows), 1), model.config.decoder_start_token_id, device=self.lm.device)
        made = model(input_ids=ids, attention_mask=mask, decoder_input_ids=start, use_cache=False)
        return self.read(made.logits[:, 0])
