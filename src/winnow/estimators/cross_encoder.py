"""A cross-encoder: an encoder of the BERT kind that reads question and passage together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from winnow.errors import ConfigError, ModelError
from winnow.estimators.pair import Batch, Judgement, PairEstimator
from winnow.models import LanguageModel, load_encoder
from winnow.pairs import PairForm, PairTokens, padded

_UNSEEN = torch.finfo(torch.bfloat16).min


@dataclass
class CrossEncoder(PairEstimator):
    """Scores by one pass of an encoder over the pair.

    Args:
        head: "classes": a classifier over the first token, log-odds are the difference of its two logits (or its one
            logit, as the hub's rerankers have it); its weights are random where the folder has none.
            "pooled": `scale` times the cosine between the mean vector of the question's tokens and that of the passage's,
            each having seen the other. A sentence encoder starts there with what it knows, instead of a random classifier.
        scale: of the pooled head's cosine.
        apart: layers, from the first, in which question and passage do not see each other, each a text of its own. With all
            layers apart and the pooled head this is the sentence encoder's cosine; with some it starts close to it, and the
            rest learns to read both together (as PreTTR's layers, MacAvaney et al. 2020, which were split for speed).

    """

    form: PairForm = field(default_factory=lambda: PairForm("{question}", "{title}. {text}"))
    head: Literal["classes", "pooled"] = "classes"
    scale: float = 20.0
    apart: int = 0

    def __post_init__(self) -> None:
        """Refuse an unknown head, and a classifier on a first token that has not seen the passage."""
        super().__post_init__()
        if self.head not in ("classes", "pooled"):
            raise ConfigError(f"estimator.head must be classes or pooled; received {self.head!r}.")
        if self.apart < 0 or (self.apart and self.head == "classes"):
            raise ConfigError(
                f"estimator.apart is 0 or more, and 0 with head=classes; received {self.apart}, head={self.head}."
            )

    def load(self) -> LanguageModel:
        """Load model and tokenizer."""
        lm = load_encoder(self.path, self.loading_dtype, self.device, classes=2 if self.head == "classes" else 0)
        kind, layers = lm.model.config.model_type, lm.model.config.num_hidden_layers
        if self.apart and (kind != "bert" or self.apart > layers):
            raise ModelError(
                f"estimator.apart={self.apart} needs a BERT of as many layers; {self.path} is a {kind} of {layers}. "
                "Set estimator.engine.apart to 0, or to the layers that it has."
            )
        return lm

    def tokeniser(self) -> PairTokens:
        """Write [CLS] question [SEP] passage [SEP]."""
        tokenizer = self.lm.tokenizer
        first = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
        between = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
        if first is None or between is None:
            raise ModelError(f"The tokenizer of {self.path} has neither [CLS] and [SEP] nor start and end tokens.")
        start, end = int(first), int(between)
        middle = [end, start] if self.apart else [end]  # apart, each is a text with a start of its own
        return PairTokens(tokenizer, self.form, self.max_length, [start], middle, [end])

    def lay_out(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Batch:
        """Return token ids, mask, and (B, T) which tokens are the passage's."""
        ids, mask = padded(rows, int(self.lm.tokenizer.pad_token_id))
        begins = torch.tensor(list(starts))[:, None] - int(self.apart > 0)  # apart, the passage has a start token of its own
        second = (torch.arange(ids.shape[1]) >= begins).long() * mask
        device = self.lm.device
        return ids.to(device), mask.to(device), second.to(device)

    def encode(self, *laid_out: torch.Tensor) -> torch.Tensor:
        """Return the classifier's (B, classes) logits, or the last layer's (B, T, D) vectors."""
        ids, mask, second = laid_out
        if self.apart:
            return self._read_apart(ids, mask, second)
        inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        if getattr(self.lm.model.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = second
        made = self.lm.model(**inputs)
        read: torch.Tensor = made.logits if self.head == "classes" else made.last_hidden_state
        return read

    def conclude(self, encoded: torch.Tensor, *laid_out: torch.Tensor) -> Judgement:
        """Read the head."""
        _, mask, second = laid_out
        found = encoded.float()
        if self.head == "classes":
            log_odds = found[:, 0] if found.shape[1] == 1 else found[:, 1] - found[:, 0]
        else:
            asked, shown = (torch.nn.functional.normalize(_mean(found, part), dim=-1) for part in (mask - second, second))
            log_odds = self.scale * (asked * shown).sum(dim=-1)
        return Judgement(log_odds, torch.zeros_like(log_odds))

    def _read_apart(self, ids_BT: torch.Tensor, mask_BT: torch.Tensor, second_BT: torch.Tensor) -> torch.Tensor:
        """Run the layers one by one, the first of them with a mask that parts question and passage."""
        model: Any = self.lm.model
        place = torch.arange(ids_BT.shape[1], device=ids_BT.device)
        begins = (mask_BT - second_BT).sum(dim=1, keepdim=True)
        hidden = model.embeddings(input_ids=ids_BT, position_ids=(place - second_BT * begins) * mask_BT)
        whole = mask_BT.bool()[:, None, None, :]
        parted = whole & (second_BT[:, None, :, None] == second_BT[:, None, None, :])
        masks = [
            torch.zeros_like(seen, dtype=hidden.dtype).masked_fill(~seen, _UNSEEN)
            for seen in (parted, whole)  # added to scores: eager attention knows no other masks
        ]
        for number, layer in enumerate(model.encoder.layer):
            hidden = layer(hidden, masks[number >= self.apart])
        read: torch.Tensor = hidden
        return read


def _mean(hidden_BTD: torch.Tensor, part_BT: torch.Tensor) -> torch.Tensor:
    weights = part_BT.unsqueeze(-1).float()
    return (hidden_BTD * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
