"""Correctness of the answer: exact match, F1 and accuracy, in the dialects of published implementations."""

from dataclasses import dataclass
from typing import ClassVar

from winnow.metrics.answer import Dialect, accuracy, exact_match, f1
from winnow.metrics.base import MeanMetric, Sample


@dataclass(frozen=True)
class ExactMatch(MeanMetric):
    """Whether the normalised answer equals a normalised accepted answer."""

    revision: ClassVar[int] = 1

    dialect: Dialect = "squad"

    def score(self, sample: Sample) -> float:
        """Return 1.0 for an exact match, else 0.0."""
        return exact_match(sample.prediction.answer, sample.question.answers, self.dialect)


@dataclass(frozen=True)
class F1(MeanMetric):
    """Token F1 against the most similar accepted answer."""

    revision: ClassVar[int] = 1

    dialect: Dialect = "squad"

    def score(self, sample: Sample) -> float:
        """Compute the highest token F1 (0 to 1)."""
        return f1(sample.prediction.answer, sample.question.answers, self.dialect)


@dataclass(frozen=True)
class Accuracy(MeanMetric):
    """Whether the answer contains an accepted answer."""

    revision: ClassVar[int] = 1

    dialect: Dialect = "squad"

    def score(self, sample: Sample) -> float:
        """Return 1.0 if the answer contains an accepted answer, else 0.0."""
        return accuracy(sample.prediction.answer, sample.question.answers, self.dialect)
