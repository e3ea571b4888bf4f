"""A cross-encoder: an encoder of the BERT kind that reads question and passage together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from winnow.errors import ConfigError, ModelError
from winnow.estimators.pair import Batch, PairEstimator, PairScores
from winnow.modeling.loading import LanguageModel, load_encoder
from winnow.modeling.pair_inputs import PairForm, PairTokens, padded

_MASKED = torch.finfo(torch.bfloat16).min


@dataclass
class CrossEncoder(PairEstimator):
    """Scores by one pass of an encoder over the pair.

    Args:
        head: "classes" is a classifier over the first token: log-odds are the difference of its two logits, or its one
            logit, as in the hub's rerankers; its weights are random if the folder has none.
            "pooled" is `scale` times the cosine between the mean vectors of the question's and of the passage's tokens,
            each having attended to the other. A sentence encoder needs no new weights for it.
        scale: of the pooled head's cosine.
        separate_layers: number of layers, from the first, in which question and passage do not attend to each other. With all
            layers separate and the pooled head this is the sentence encoder's cosine; with fewer it starts close to it, and
            the other layers learn to read both together (as in PreTTR, MacAvaney et al. 2020, where it serves speed).

    """

    form: PairForm = field(default_factory=lambda: PairForm("{question}", "{title}. {text}"))
    head: Literal["classes", "pooled"] = "classes"
    scale: float = 20.0
    separate_layers: int = 0

    def __post_init__(self) -> None:
        """Refuse an unknown head, and a classifier on a first token that does not attend to the passage."""
        super().__post_init__()
        if self.head not in ("classes", "pooled"):
            raise ConfigError(f"estimator.head must be classes or pooled; received {self.head!r}.")
        if self.separate_layers < 0 or (self.separate_layers and self.head == "classes"):
            raise ConfigError(
                f"estimator.separate_layers is 0 or more, and 0 with head=classes; received {self.separate_layers}, "
                f"head={self.head}."
            )

    def load(self) -> LanguageModel:
        """Load model and tokenizer."""
        lm = load_encoder(self.path, self.loading_dtype, self.device, classes=2 if self.head == "classes" else 0)
        kind, layers = lm.model.config.model_type, lm.model.config.num_hidden_layers
        if self.separate_layers and (kind != "bert" or self.separate_layers > layers):
            raise ModelError(
                f"estimator.separate_layers={self.separate_layers} needs a BERT with as many layers; {self.path} is a {kind} "
                f"with {layers}. Set estimator.engine.separate_layers to 0, or to at most {layers} for a BERT."
            )
        return lm

    def pair_tokenizer(self) -> PairTokens:
        """Return a tokenizer that writes [CLS] question [SEP] passage [SEP]."""
        tokenizer = self.lm.tokenizer
        first = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
        between = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
        if first is None or between is None:
            raise ModelError(f"The tokenizer of {self.path} has neither [CLS] and [SEP] nor start and end tokens.")
        start, end = int(first), int(between)
        middle = [end, start] if self.separate_layers else [end]  # separate texts have a start token each
        return PairTokens(tokenizer, self.form, self.max_length, [start], middle, [end])

    def collate(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Batch:
        """Return token ids, mask, and (B, T) which tokens are the passage's."""
        ids, mask = padded(rows, int(self.lm.tokenizer.pad_token_id))
        first = torch.tensor(list(starts))[:, None] - int(self.separate_layers > 0)  # its own start token, if any
        passage = (torch.arange(ids.shape[1]) >= first).long() * mask
        device = self.lm.device
        return ids.to(device), mask.to(device), passage.to(device)

    def encode(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Return the classifier's (B, classes) logits, or the last layer's (B, T, D) vectors."""
        ids, mask, passage = inputs
        if self.separate_layers:
            return self._encode_separately(ids, mask, passage)
        named: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        if getattr(self.lm.model.config, "type_vocab_size", 0) > 1:
            named["token_type_ids"] = passage
        output = self.lm.model(**named)
        encoded: torch.Tensor = output.logits if self.head == "classes" else output.last_hidden_state
        return encoded

    def compute_log_odds(self, encoded: torch.Tensor, *inputs: torch.Tensor) -> PairScores:
        """Apply the head."""
        _, mask, passage = inputs
        values = encoded.float()
        if self.head == "classes":
            log_odds = values[:, 0] if values.shape[1] == 1 else values[:, 1] - values[:, 0]
        else:
            first, second = (torch.nn.functional.normalize(_mean(values, part), dim=-1) for part in (mask - passage, passage))
            log_odds = self.scale * (first * second).sum(dim=-1)
        return PairScores(log_odds, torch.zeros_like(log_odds))

    def _encode_separately(self, ids_BT: torch.Tensor, mask_BT: torch.Tensor, passage_BT: torch.Tensor) -> torch.Tensor:
        """Run the layers one by one, the first of them with a mask that separates question and passage."""
        model: Any = self.lm.model
        position = torch.arange(ids_BT.shape[1], device=ids_BT.device)
        question_length = (mask_BT - passage_BT).sum(dim=1, keepdim=True)
        positions = (position - passage_BT * question_length) * mask_BT
        hidden = model.embeddings(input_ids=ids_BT, position_ids=positions)
        joint = mask_BT.bool()[:, None, None, :]
        separate = joint & (passage_BT[:, None, :, None] == passage_BT[:, None, None, :])
        masks = [
            torch.zeros_like(visible, dtype=hidden.dtype).masked_fill(~visible, _MASKED)
            for visible in (separate, joint)  # additive, because eager attention accepts no other masks
        ]
        for number, layer in enumerate(model.encoder.layer):
            hidden = layer(hidden, masks[number >= self.separate_layers])
        encoded: torch.Tensor = hidden
        return encoded


def _mean(hidden_BTD: torch.Tensor, part_BT: torch.Tensor) -> torch.Tensor:
    weights = part_BT.unsqueeze(-1).float()
    return (hidden_BTD * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
