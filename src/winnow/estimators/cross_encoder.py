"""A cross-encoder: an encoder of the BERT kind that reads question and passage together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from winnow.errors import ConfigError, ModelError
from winnow.estimators.pair import Judgement, PairEstimator
from winnow.models import LanguageModel, load_encoder
from winnow.pairs import PairForm, PairTokens, padded


@dataclass
class CrossEncoder(PairEstimator):
    """Scores by one pass of an encoder over the pair.

    Args:
        head: "classes": a classifier over the first token, log-odds are the difference of its two logits (or its one
            logit, as the hub's rerankers have it); its weights are random where the folder has none.
            "pooled": `scale` times the cosine between the mean vector of the question's tokens and that of the passage's,
            each having seen the other. A sentence encoder starts there with what it knows, instead of a random classifier.
        scale: of the pooled head's cosine.

    """

    form: PairForm = field(default_factory=lambda: PairForm("{question}", "{title}. {text}"))
    head: Literal["classes", "pooled"] = "classes"
    scale: float = 20.0

    def __post_init__(self) -> None:
        """Refuse an unknown head."""
        super().__post_init__()
        if self.head not in ("classes", "pooled"):
            raise ConfigError(f"estimator.head must be classes or pooled; received {self.head!r}.")

    def load(self) -> LanguageModel:
        """Load model and tokenizer."""
        return load_encoder(self.path, self.dtype, self.device, classes=2 if self.head == "classes" else 0)

    def tokeniser(self) -> PairTokens:
        """Write [CLS] question [SEP] passage [SEP]."""
        tokenizer = self.lm.tokenizer
        first = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
        between = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
        if first is None or between is None:
            raise ModelError(f"The tokenizer of {self.path} has neither [CLS] and [SEP] nor start and end tokens.")
        ends = [int(between)]
        return PairTokens(tokenizer, self.form, self.max_length, [int(first)], ends, ends)

    def judge(self, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Judgement:
        """Encode the pairs and read the head."""
        ids, mask = padded(rows, int(self.lm.tokenizer.pad_token_id))
        positions = torch.arange(ids.shape[1])
        second = (positions >= torch.tensor(list(starts))[:, None]).long() * mask
        device = self.lm.device
        inputs: dict[str, Any] = {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
        if getattr(self.lm.model.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = second.to(device)
        made = self.lm.model(**inputs)
        if self.head == "classes":
            logits = made.logits.float()
            log_odds = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
        else:
            hidden = made.last_hidden_state.float()
            asked, shown = (_mean(hidden, part.to(device)) for part in (mask - second, second))
            log_odds = self.scale * torch.nn.functional.cosine_similarity(asked, shown, dim=-1)
        return Judgement(log_odds, torch.zeros_like(log_odds))


def _mean(hidden_BTD: torch.Tensor, part_BT: torch.Tensor) -> torch.Tensor:
    weights = part_BT.unsqueeze(-1).float()
    return (hidden_BTD * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
