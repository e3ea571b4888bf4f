"""Metrics of the correctness of an answer: exact match, F1 and accuracy.

Each metric has several dialects, which are the rules of published implementations (see
`winnow.metrics.answer`).
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.metrics.answer import accuracy, exact_match, f1
from winnow.metrics.base import MeanMetric, Sample
from winnow.text.normalization import Dialect


@dataclass(frozen=True)
class _Correctness(MeanMetric):
    """Base class of metrics that compare the answer with the accepted answers.

    Args:
        dialect: Published implementation whose rules apply.
    """

    dialect: Dialect = "squad"

    @abstractmethod
    def score_answer(self, answer: str, accepted: Sequence[str]) -> float:
        """Compare an answer with the accepted ones, of which there is at least one."""

    def score(self, sample: Sample) -> float | None:
        """Return the score of the answer, or None if the data set has no answer to the question."""
        accepted_answers = sample.question.answers
        return (
            self.score_answer(sample.prediction.answer, accepted_answers)
            if accepted_answers
            else None
        )

    @property
    def heading(self) -> str:
        """Return the title, followed by the dialect if it is not SQuAD's."""
        return self.title if self.dialect == "squad" else f"{self.title} ({self.dialect})"


@dataclass(frozen=True)
class ExactMatch(_Correctness):
    """Whether the normalized answer equals a normalized accepted answer; in the dialect "crag",
    whether the answer contains an accepted one, raw and case-sensitive.
    """

    revision: ClassVar[int] = 1

    def score_answer(self, answer: str, accepted: Sequence[str]) -> float:
        """Return 1.0 for an exact match, else 0.0."""
        return exact_match(answer, accepted, self.dialect)


@dataclass(frozen=True)
class F1(_Correctness):
    """Token F1 against the most similar accepted answer."""

    revision: ClassVar[int] = 2

    def score_answer(self, answer: str, accepted: Sequence[str]) -> float:
        """Compute the highest token F1 (0 to 1) over the accepted answers."""
        return f1(answer, accepted, self.dialect)


@dataclass(frozen=True)
class Accuracy(_Correctness):
    """Whether the answer contains an accepted answer."""

    revision: ClassVar[int] = 1

    def score_answer(self, answer: str, accepted: Sequence[str]) -> float:
        """Return 1.0 if the answer contains an accepted answer, else 0.0."""
        return accuracy(answer, accepted, self.dialect)
