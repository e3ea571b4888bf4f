"""How often a correct candidate answer loses the vote: %NM of the Post-Fusion paper (section 5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.metrics.answer import exact_match
from winnow.metrics.base import MeanMetric, RatioMetric, Row, Sample
from winnow.metrics.intervals import Interval, undefined_interval


@dataclass(frozen=True)
class NotMajority(MeanMetric):
    """Share of all questions whose candidates include a correct answer, but whose final answer is wrong, as in the paper.

    It is undefined for a cell in which no question has candidates.
    """

    revision: ClassVar[int] = 2

    def score(self, sample: Sample) -> float:
        """Return 1.0 if a correct candidate lost, else 0.0."""
        return float(_has_correct_candidate(sample) and not _is_correct(sample))

    def row(self, sample: Sample) -> Row | None:
        """Return the score and the number of candidates."""
        row = super().row(sample)
        return None if row is None else {**row, "candidates": float(len(sample.prediction.candidates))}

    def aggregate(self, rows: Sequence[Row], seed: int = 0) -> Interval:
        """Compute the share; it is undefined if no question has candidates."""
        return super().aggregate(rows, seed) if any(row["candidates"] for row in rows) else undefined_interval()


@dataclass(frozen=True)
class NotMajorityOfPools(RatioMetric):
    """Share of the questions whose candidates include a correct answer, but whose final answer is wrong, among the former."""

    revision: ClassVar[int] = 1

    def counts(self, sample: Sample) -> tuple[float, float]:
        """Count a correct candidate that lost, and a correct candidate."""
        has_correct_candidate = _has_correct_candidate(sample)
        return float(has_correct_candidate and not _is_correct(sample)), float(has_correct_candidate)


def _has_correct_candidate(sample: Sample) -> bool:
    return any(exact_match(candidate, sample.question.answers) for candidate in sample.prediction.candidates)


def _is_correct(sample: Sample) -> bool:
    return bool(exact_match(sample.prediction.answer, sample.question.answers))
