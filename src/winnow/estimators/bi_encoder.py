"""A relevance estimator without training: the scaled cosine similarity of question and passage."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Gt
from numpy.typing import NDArray

from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.records import Passage


@dataclass(frozen=True)
class BiEncoder:
    """An estimator whose log-odds are scaled cosine similarities; it encodes equal passages once.

    Args:
        encoder: Encoder of questions and passages, whose vectors are scaled to unit length.
        scale: Factor by which the cosine similarity is multiplied.
    """

    revision: ClassVar[int] = 2

    encoder: SentenceEncoder
    scale: Annotated[float, Gt(0)] = 20.0
    _vectors: dict[Passage, NDArray[np.float16]] = field(default_factory=dict, repr=False)

    @property
    def software(self) -> str:
        """Return PyTorch, which encodes texts, and its version."""
        return f"torch {version('torch')}"

    @property
    def truncated(self) -> int:
        """Return the number of texts truncated to the encoder's maximum length so far."""
        return self.encoder.truncated

    def score(self, pairs: Sequence[tuple[str, Passage]]) -> NDArray[np.float32]:
        """Compute the (pairs,) float32 log-odds of the question-passage pairs."""
        new_passages = list(
            dict.fromkeys(passage for _, passage in pairs if passage not in self._vectors)
        )
        for passage, vector in zip(
            new_passages, self.encoder.encode_passages(new_passages), strict=True
        ):
            self._vectors[passage] = _normalize(vector).astype(np.float16)
        questions = list(dict.fromkeys(question for question, _ in pairs))
        vectors = map(_normalize, self.encoder.encode_queries(questions))
        question_vectors = dict(zip(questions, vectors, strict=True))
        cosines = [
            float(question_vectors[question] @ self._vectors[passage].astype(np.float32))
            for question, passage in pairs
        ]
        return np.array(cosines, dtype=np.float32) * self.scale


def _normalize(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale a vector (dimensions,) to unit length; one without length stays."""
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector
