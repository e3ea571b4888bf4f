"""How often a correct candidate answer loses the vote: %NM of the Post-Fusion paper (section 5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.metrics.answer import exact_match
from winnow.metrics.base import MeanMetric, Row, Sample, undefined_interval
from winnow.metrics.intervals import Interval


@dataclass(frozen=True)
class NotMajority(MeanMetric):
    """Share of questions whose candidates include a correct answer, but whose final answer is wrong.

    The share is taken over all questions, as in the paper, or with `of_pools` over the questions whose candidates include a
    correct answer. It is undefined for a cell in which no question has candidates.
    """

    revision: ClassVar[int] = 1

    of_pools: bool = False

    def score(self, sample: Sample) -> float | None:
        """Return 1.0 if a correct candidate lost, else 0.0; None if `of_pools` is set and no candidate is correct."""
        answers = sample.question.answers
        has_correct_candidate = any(exact_match(candidate, answers) for candidate in sample.prediction.candidates)
        if self.of_pools and not has_correct_candidate:
            return None
        return float(has_correct_candidate and not exact_match(sample.prediction.answer, answers))

    def row(self, sample: Sample) -> Row | None:
        """Return the score and the number of candidates."""
        row = super().row(sample)
        return None if row is None else {**row, "candidates": float(len(sample.prediction.candidates))}

    def aggregate(self, rows: Sequence[Row], seed: int = 0) -> Interval:
        """Compute the share; it is undefined if no question has candidates."""
        return super().aggregate(rows, seed) if any(row["candidates"] for row in rows) else undefined_interval()
