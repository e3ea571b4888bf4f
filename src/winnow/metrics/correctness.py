"""Whether the answer is right: exact match, F1 and accuracy, in the dialects of published implementations."""

from dataclasses import dataclass

from winnow.metrics.answer import Dialect, accuracy, exact_match, f1
from winnow.metrics.base import MeanMetric, Sample


@dataclass(frozen=True)
class ExactMatch(MeanMetric):
    """The normalised answer equals a normalised accepted answer."""

    dialect: Dialect = "squad"

    def score(self, sample: Sample) -> float:
        """Return 1.0 or 0.0."""
        return exact_match(sample.prediction.answer, sample.question.answers, self.dialect)


@dataclass(frozen=True)
class F1(MeanMetric):
    """Token overlap with the most similar accepted answer."""

    dialect: Dialect = "squad"

    def score(self, sample: Sample) -> float:
        """Return the highest token F1, 0 to 1."""
        return f1(sample.prediction.answer, sample.question.answers, self.dialect)


@dataclass(frozen=True)
class Accuracy(MeanMetric):
    """An accepted answer is contained in the answer."""

    dialect: Dialect = "squad"

    def score(self, sample: Sample) -> float:
        """Return 1.0 or 0.0."""
        return accuracy(sample.prediction.answer, sample.question.answers, self.dialect)
