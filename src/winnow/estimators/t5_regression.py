"""CRAG's retrieval evaluator: a T5 with one unbounded output (Yan et al. 2024, released code)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from winnow.errors import ModelError
from winnow.estimators.pair import Batch, PairEstimator, PairScores
from winnow.modeling.loading import LanguageModel, load_encoder
from winnow.modeling.pair_inputs import PairTokenizer
from winnow.modeling.pair_model import build_seq2seq_tokenizer, collate_rows

if TYPE_CHECKING:
    import torch


@dataclass
class T5Regression(PairEstimator):
    """An estimator that scores with a T5 trained to regress -1 (irrelevant) and 1 (relevant).

    The score is not log-odds: it needs an evaluator with `scale: none`. The published evaluator can
    be loaded; the head of a T5 without one has random weights, until `winnow.training.evaluator`
    trains it. The padding of a batch is masked.
    """

    def load(self) -> LanguageModel:
        """Load the model and its tokenizer; raise ModelError if its head has several outputs."""
        lm = load_encoder(self.path, self.loading_dtype, self.device, classes=1)
        if lm.model.config.num_labels != 1:
            raise ModelError(
                f"{self.path} is a classifier of {lm.model.config.num_labels} classes, but a "
                "regression has one output. Choose a T5 with a regression head, or one without a "
                "head, which is then trained."
            )
        return lm

    def build_pair_tokenizer(self) -> PairTokenizer:
        """Create a tokenizer that ends each pair with the EOS token, at which the head reads."""
        return build_seq2seq_tokenizer(self)

    def collate(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Batch:  # noqa: ARG002 (a pair is one text)
        """Pad the token ids, and build their attention mask."""
        return collate_rows(self, rows)

    def encode(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Compute the outputs of the head (B, 1) at the last token of each pair.

        The model itself refuses a batch in which a text contains the end token.
        """
        ids, mask = inputs
        model: Any = self.lm.model
        hidden_states = model.transformer(
            input_ids=ids,
            attention_mask=mask,
            decoder_input_ids=model.transformer._shift_right(ids),
            use_cache=False,
        )[0]
        last = mask.sum(dim=1) - 1
        rows = list(range(len(ids)))
        logits: torch.Tensor = model.classification_head(hidden_states[rows, last])
        return logits

    def compute_log_odds(self, encoded: torch.Tensor, *inputs: torch.Tensor) -> PairScores:  # noqa: ARG002 (the interface)
        """Return the outputs of the head as the scores."""
        scores = encoded.float()[:, 0]
        return PairScores(scores, scores.new_zeros(scores.shape))
