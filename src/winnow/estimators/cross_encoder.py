"""A cross-encoder: a BERT-like encoder that reads question and passage together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch

from winnow.errors import ConfigError, ModelError
from winnow.estimators.pair import Batch, PairEstimator, PairScores
from winnow.modeling.loading import LanguageModel, load_encoder
from winnow.modeling.pair_inputs import PairTemplate, PairTokens, padded

_MASKED = torch.finfo(torch.bfloat16).min
"""Value of the additive attention mask at masked positions."""


@dataclass
class CrossEncoder(PairEstimator):
    """Scores a pair in one forward pass of an encoder.

    Args:
        head: "classes" is a classifier over the first token. The log-odds are the difference of its two logits, or its only
            logit, as in the hub's rerankers. Its weights are random if the folder has none.
            "pooled" is `scale` times the cosine similarity of two mean vectors: that of the question's tokens and that of the
            passage's tokens, after they have attended to each other. A sentence encoder needs no new weights for it.
        scale: Factor of the cosine similarity in the pooled head.
        separate_layers: Number of layers, counted from the first, in which question and passage do not attend to each other.
            With the pooled head and all layers separate, the score is the sentence encoder's cosine similarity. With fewer,
            it starts close to it, and the other layers learn to read question and passage together. PreTTR (MacAvaney et
            al. 2020) has such layers for speed.

    """

    revision: ClassVar[int] = 1

    template: PairTemplate = field(default_factory=lambda: PairTemplate("{question}", "{title}. {text}"))
    head: Literal["classes", "pooled"] = "classes"
    scale: float = 20.0
    separate_layers: int = 0

    def __post_init__(self) -> None:
        """Raise ConfigError for an unknown head, or a classifier on a first token that does not attend to the passage."""
        super().__post_init__()
        if self.head not in ("classes", "pooled"):
            raise ConfigError(f"estimator.head must be classes or pooled; received {self.head!r}.")
        if self.separate_layers < 0 or (self.separate_layers and self.head == "classes"):
            raise ConfigError(
                f"estimator.separate_layers is 0 or more, and 0 with head=classes; received {self.separate_layers}, "
                f"head={self.head}."
            )

    def load(self) -> LanguageModel:
        """Load the model and its tokenizer."""
        lm = load_encoder(self.path, self.loading_dtype, self.device, classes=2 if self.head == "classes" else 0)
        model_type, layers = lm.model.config.model_type, lm.model.config.num_hidden_layers
        if self.separate_layers and (model_type != "bert" or self.separate_layers > layers):
            raise ModelError(
                f"estimator.separate_layers={self.separate_layers} needs a BERT with as many layers; {self.path} is a "
                f"{model_type} with {layers}. Set estimator.engine.separate_layers to 0, or to at most {layers} for a BERT."
            )
        return lm

    def pair_tokenizer(self) -> PairTokens:
        """Create a tokenizer for the input [CLS] question [SEP] passage [SEP]."""
        tokenizer = self.lm.tokenizer
        cls_id = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
        sep_id = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
        if cls_id is None or sep_id is None:
            raise ModelError(f"The tokenizer of {self.path} has neither [CLS] and [SEP] nor start and end tokens.")
        start, end = int(cls_id), int(sep_id)
        middle = [end, start] if self.separate_layers else [end]  # each of two separate texts has a start token
        return PairTokens(tokenizer, self.template, self.max_length, [start], middle, [end])

    def collate(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Batch:
        """Pad token ids, and build their mask and the (B, T) mask of the passage's tokens."""
        ids, mask = padded(rows, int(self.lm.tokenizer.pad_token_id))
        passage_starts = torch.tensor(list(starts))[:, None] - int(self.separate_layers > 0)  # its own start token, if any
        passage_mask = (torch.arange(ids.shape[1]) >= passage_starts).long() * mask
        device = self.lm.device
        return ids.to(device), mask.to(device), passage_mask.to(device)

    def encode(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Compute the (B, classes) logits of the classifier, or the (B, T, D) vectors of the last layer."""
        ids, mask, passage_mask = inputs
        if self.separate_layers:
            return self._encode_separately(ids, mask, passage_mask)
        model_inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        if getattr(self.lm.model.config, "type_vocab_size", 0) > 1:
            model_inputs["token_type_ids"] = passage_mask
        output = self.lm.model(**model_inputs)
        encoded: torch.Tensor = output.logits if self.head == "classes" else output.last_hidden_state
        return encoded

    def compute_log_odds(self, encoded: torch.Tensor, *inputs: torch.Tensor) -> PairScores:
        """Apply the head to the output of the encoder."""
        _, mask, passage_mask = inputs
        if self.head == "classes":
            logits = encoded.float()
            log_odds = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
        else:
            vectors = encoded.float()
            question_mean, passage_mean = (
                torch.nn.functional.normalize(_masked_mean(vectors, part), dim=-1)
                for part in (mask - passage_mask, passage_mask)
            )
            log_odds = self.scale * (question_mean * passage_mean).sum(dim=-1)
        return PairScores(log_odds, torch.zeros_like(log_odds))

    def _encode_separately(self, ids_BT: torch.Tensor, mask_BT: torch.Tensor, passage_BT: torch.Tensor) -> torch.Tensor:
        """Run the layers one by one. In the first of them, a mask separates question and passage."""
        model: Any = self.lm.model
        indices = torch.arange(ids_BT.shape[1], device=ids_BT.device)
        question_length = (mask_BT - passage_BT).sum(dim=1, keepdim=True)
        positions = (indices - passage_BT * question_length) * mask_BT  # those of the passage start at 0 again
        hidden = model.embeddings(input_ids=ids_BT, position_ids=positions)
        joint = mask_BT.bool()[:, None, None, :]
        separate = joint & (passage_BT[:, None, :, None] == passage_BT[:, None, None, :])
        masks = [
            torch.zeros_like(visible, dtype=hidden.dtype).masked_fill(~visible, _MASKED)
            for visible in (separate, joint)  # additive, because eager attention accepts no other masks
        ]
        for index, layer in enumerate(model.encoder.layer):
            hidden = layer(hidden, masks[index >= self.separate_layers])
        encoded: torch.Tensor = hidden
        return encoded


def _masked_mean(hidden_BTD: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    weights = mask_BT.unsqueeze(-1).float()
    return (hidden_BTD * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
