"""The simplest estimator: a scaled cosine of question and passage vectors."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from winnow.modeling.sentence_encoder import Advance, SentenceEncoder
from winnow.records import Passage


@dataclass(frozen=True)
class BiEncoder:
    """Scores `scale` times the cosine as log-odds; each distinct passage is encoded once per estimator."""

    encoder: SentenceEncoder
    scale: float = 20.0
    advance: Advance | None = None
    _vectors: dict[Passage, NDArray[np.float16]] = field(default_factory=dict, repr=False)

    @property
    def truncated(self) -> int:
        """Return how many texts were cut to the encoder's length so far."""
        return self.encoder.truncated

    def score(self, pairs: Sequence[tuple[str, Passage]]) -> NDArray[np.float32]:
        """Return (pairs,) float32 log-odds."""
        new = list(dict.fromkeys(p for _, p in pairs if p not in self._vectors))
        for passage, vector in zip(new, self.encoder.passages(new, self.advance), strict=True):
            self._vectors[passage] = vector.astype(np.float16)
        texts = list(dict.fromkeys(question for question, _ in pairs))
        questions = dict(zip(texts, self.encoder.queries(texts), strict=True))
        cosines = [float(questions[q] @ self._vectors[p].astype(np.float32)) for q, p in pairs]
        return np.array(cosines, dtype=np.float32) * self.scale
