"""Sentence encoders that map texts to vectors for dense retrieval and the bi-encoder estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from winnow.modeling.loading import POOLER_WEIGHTS
from winnow.modeling.text_encoder import TextEncoder
from winnow.modeling.weights import load_pretrained
from winnow.records import Passage

if TYPE_CHECKING:
    import torch

Pooling = Literal["mean", "cls", "last"]


@dataclass
class SentenceEncoder(TextEncoder):
    """An encoder of texts to vectors with any BERT-like encoder, or with a decoder trained for it.

    Args:
        pooling: "mean" for the mean of all tokens, "cls" for the first token, or "last" for the
            last one, as decoders such as Qwen3-Embedding need. DPR models use their own pooling
            instead.
        normalize: Whether to scale vectors to unit length, so that inner products are cosine
            similarities.

    The other arguments are the same as in `TextEncoder`.
    """

    revision: ClassVar[int] = 2

    pooling: Pooling = "mean"
    normalize: bool = True

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode queries to vectors of shape (texts, dimensions)."""
        return self._encode(self._format_queries(texts), self.query_path or self.path)

    def encode_passages(self, passages: Sequence[Passage]) -> NDArray[np.float32]:
        """Encode passages to vectors of shape (passages, dimensions)."""
        return self._encode(self._format_passages(passages), self.path)

    def encode_averages(self, pairs: Sequence[tuple[str, Sequence[str]]]) -> NDArray[np.float32]:
        """Average the vectors of each query and of its texts, encoded as passages, to vectors of
        shape (pairs, dimensions).
        """
        sums = self.encode_queries([query for query, _ in pairs])
        owners = np.array(
            [number for number, (_, texts) in enumerate(pairs) for _ in texts], dtype=np.int64
        )
        vectors = self.encode_passages(
            [Passage("", "", text) for _, texts in pairs for text in texts]
        )
        np.add.at(sums, owners, vectors)
        counts = np.array([[1 + len(texts)] for _, texts in pairs], dtype=np.float32)
        return np.divide(sums, counts, dtype=np.float32)

    def _encode(self, texts: Sequence[str], path: str) -> NDArray[np.float32]:
        """Encode texts with the model at `path`. The vectors are in the order of the texts."""
        model, _, _ = self._load(path)
        vectors = np.zeros((len(texts), model.config.hidden_size), dtype=np.float32)
        for indices, pooled in self._iter_pooled(texts, path):
            vectors[list(indices)] = pooled.cpu().numpy()
        return vectors

    def _pool(self, output: Any, mask: torch.Tensor) -> torch.Tensor:
        """Pool token vectors (batch, tokens, dimensions) to text vectors (batch, dimensions)."""
        import torch

        hidden_states = getattr(output, "last_hidden_state", None)
        if hidden_states is None:
            pooled = output.pooler_output.float()
        elif self.pooling == "cls":
            pooled = hidden_states[:, 0].float()
        elif self.pooling == "last":
            pooled = hidden_states[
                torch.arange(len(hidden_states), device=hidden_states.device), mask.sum(dim=1) - 1
            ].float()
        else:
            hidden_states = hidden_states.float()
            weights = mask.unsqueeze(-1).float()
            pooled = (hidden_states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
        return torch.nn.functional.normalize(pooled, dim=-1) if self.normalize else pooled

    def _load_model(self, source: str, architecture: str, options: Mapping[str, Any]) -> Any:
        """Load the model; with pooling "cls", its last layer computes the first token alone."""
        from transformers import AutoModel, DPRContextEncoder

        # AutoModel loads any DPR folder as a question encoder, which would leave a context
        # encoder's weights random.
        model_class: Any = DPRContextEncoder if architecture == "DPRContextEncoder" else AutoModel
        model = load_pretrained(model_class, source, may_lack=POOLER_WEIGHTS, **options)
        if self.pooling == "cls":
            from winnow.modeling.first_token import skip_unread_tokens

            skip_unread_tokens(model)
        return model
