"""The simplest estimator: the scaled cosine similarity of question and passage vectors."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from winnow.modeling.sentence_encoder import Advance, SentenceEncoder
from winnow.records import Passage


@dataclass(frozen=True)
class BiEncoder:
    """Uses `scale` times the cosine similarity as log-odds. Each distinct passage is encoded only once."""

    revision: ClassVar[int] = 1

    encoder: SentenceEncoder
    scale: float = 20.0
    advance: Advance | None = None
    _vectors: dict[Passage, NDArray[np.float16]] = field(default_factory=dict, repr=False)

    @property
    def truncated(self) -> int:
        """Return the number of texts truncated to the encoder's maximum length so far."""
        return self.encoder.truncated

    def score(self, pairs: Sequence[tuple[str, Passage]]) -> NDArray[np.float32]:
        """Compute the (pairs,) float32 log-odds."""
        new_passages = list(dict.fromkeys(p for _, p in pairs if p not in self._vectors))
        for passage, vector in zip(new_passages, self.encoder.passages(new_passages, self.advance), strict=True):
            self._vectors[passage] = vector.astype(np.float16)
        questions = list(dict.fromkeys(question for question, _ in pairs))
        question_vectors = dict(zip(questions, self.encoder.queries(questions), strict=True))
        cosines = [float(question_vectors[q] @ self._vectors[p].astype(np.float32)) for q, p in pairs]
        return np.array(cosines, dtype=np.float32) * self.scale
