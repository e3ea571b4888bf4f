"""How often a correct candidate loses the vote: %NM of the Post-Fusion paper (section 5)."""

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.metrics.answer import exact_match
from winnow.metrics.base import MeanMetric, Row, Sample, undefined_interval
from winnow.metrics.intervals import Interval


@dataclass(frozen=True)
class NotMajority(MeanMetric):
    """A correct answer is among the candidates, and the final answer is wrong.

    Over all questions, as the paper counts; undefined for a cell in which no question has candidates. With `of_pools` over
    the questions whose candidates include a correct answer.
    """

    of_pools: bool = False

    def score(self, sample: Sample) -> float | None:
        """Return 1.0 or 0.0; None with `of_pools` where no candidate is correct."""
        answers = sample.question.answers
        in_pool = any(exact_match(candidate, answers) for candidate in sample.prediction.candidates)
        if self.of_pools and not in_pool:
            return None
        return float(in_pool and not exact_match(sample.prediction.answer, answers))

    def row(self, sample: Sample) -> Row | None:
        """Return the number, and whether there was a pool at all."""
        row = super().row(sample)
        return None if row is None else {**row, "candidates": float(len(sample.prediction.candidates))}

    def aggregate(self, rows: Sequence[Row], seed: int = 0) -> Interval:
        """Return the share, undefined where no question has candidates."""
        return super().aggregate(rows, seed) if any(row["candidates"] for row in rows) else undefined_interval()
