"""RE-RAG's estimator: a T5 whose first written token says "true" or "false" (eq. 3, after monoT5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from winnow.estimators.pair import Judgement, PairEstimator, single_piece, two_tokens
from winnow.models import LanguageModel, load_seq2seq
from winnow.pair_model import seq2seq_tokens
from winnow.pairs import PairTokens, padded


@dataclass
class T5Estimator(PairEstimator):
    """Scores by one pass of the encoder and one step of the decoder; `words` are the classification tokens."""

    words: Sequence[str] = ("true", "false")

    def load(self) -> LanguageModel:
        """Load model and tokenizer."""
        return load_seq2seq(self.path, self.dtype, self.device)

    def tokeniser(self) -> PairTokens:
        """End each pair with the end token."""
        return seq2seq_tokens(self)

    @cached_property
    def _two(self) -> tuple[int, int]:
        true, false = (single_piece(self.lm.tokenizer, word) for word in self.words)
        return true, false

    def judge(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Judgement:  # noqa: ARG002 (one text to T5)
        """Read the two tokens' logits at the first decoder position."""
        ids, mask = padded(rows, int(self.lm.tokenizer.pad_token_id))
        device = self.lm.device
        start = torch.full((len(rows), 1), self.lm.model.config.decoder_start_token_id, device=device)
        made = self.lm.model(
            input_ids=ids.to(device), attention_mask=mask.to(device), decoder_input_ids=start, use_cache=False
        )
        return two_tokens(made.logits[:, 0], *self._two)
