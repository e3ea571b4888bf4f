"""SPLADE encoders, which map texts to sparse vectors over a masked language model's vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, vstack

from winnow.identity.values import Template
from winnow.modeling.text_encoder import TextEncoder
from winnow.modeling.weights import load_pretrained
from winnow.records import Passage

if TYPE_CHECKING:
    import torch


@dataclass
class SpladeEncoder(TextEncoder):
    """An encoder of texts to the weights of terms, which are the tokens of a masked language model.

    The weight of a term is the maximum of log(1 + max(0, logit)) over the tokens of the text
    (SPLADE-max; Formal et al., 2021, "SPLADE v2", equation 6). Most weights are 0.

    The arguments are the same as in `TextEncoder`. Logits have the size of the vocabulary, so that
    `batch_tokens` is lower.
    """

    revision: ClassVar[int] = 2

    passage_template: Annotated[str, Template("text", optional=("title",))] = "{title} {text}"
    batch_tokens: int = 2048

    def encode_queries(self, texts: Sequence[str]) -> csr_array[np.float32]:
        """Encode queries to vectors of shape (texts, terms)."""
        return self._encode(self._format_queries(texts), self.query_path or self.path)

    def encode_passages(self, passages: Sequence[Passage]) -> csr_array[np.float32]:
        """Encode passages to vectors of shape (passages, terms)."""
        return self._encode(self._format_passages(passages), self.path)

    def _encode(self, texts: Sequence[str], path: str) -> csr_array[np.float32]:
        """Encode texts with the model at `path`. The vectors are in the order of the texts."""
        model, _, _ = self._load(path)
        batches = [csr_array((0, model.config.vocab_size), dtype=np.float32)]
        order: list[int] = []
        for indices, pooled in self._iter_pooled(texts, path):
            batches.append(csr_array(pooled.cpu().numpy()))
            order += indices
        vectors: csr_array[np.float32] = vstack(batches, format="csr")[np.argsort(order)]
        return vectors

    def _pool(self, output: Any, mask: torch.Tensor) -> torch.Tensor:
        """Pool logits (batch, tokens, terms), without padding, to term weights (batch, terms)."""
        import torch

        logits = output.logits.masked_fill(mask.unsqueeze(-1) == 0, float("-inf"))
        return torch.log1p(torch.relu(logits.amax(dim=1).float()))

    def _load_model(self, source: str, architecture: str, options: Mapping[str, Any]) -> Any:  # noqa: ARG002 (as in TextEncoder)
        """Load the model with its head, whose weights must all be there."""
        from transformers import AutoModelForMaskedLM

        return load_pretrained(AutoModelForMaskedLM, source, **options)
