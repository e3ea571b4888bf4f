"""How often a correct candidate is not the final answer: %NM of the Post-Fusion paper (section 4).

Candidates are the answers from which a strategy chooses the final answer, for instance by a
majority vote. All candidates of a question are its pool.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from winnow.metrics.answer import exact_match, has_exact_match
from winnow.metrics.base import Columns, MeanMetric, RatioMetric, Row, Sample
from winnow.metrics.intervals import Interval, build_undefined_interval


@dataclass(frozen=True)
class NotMajority(MeanMetric):
    """Share of all questions that have a correct candidate but a wrong final answer, as in the
    paper.

    The metric is undefined if no question has candidates.
    """

    revision: ClassVar[int] = 4

    def score(self, sample: Sample) -> float | None:
        """Return 1.0 if the question has a correct candidate but a wrong final answer, else 0.0, or
        None if it has no accepted answer.
        """
        if not sample.question.answers:
            return None
        return float(_has_correct_candidate(sample) and not _is_correct(sample))

    def compute_row(self, sample: Sample) -> Row | None:
        """Return the score and the number of candidates, which `aggregate` needs."""
        row = super().compute_row(sample)
        return (
            None if row is None else {**row, "candidates": float(len(sample.prediction.candidates))}
        )

    def compute_values(self, columns: Columns) -> NDArray[np.float64]:
        """Return the score of each question, or NaN for all if no question has candidates."""
        scores = super().compute_values(columns)
        return scores if columns["candidates"].any() else np.full(len(scores), np.nan)

    def aggregate(self, columns: Columns, seed: int = 0) -> Interval:
        """Compute the share with its 95 % interval, which is undefined without any candidates."""
        return (
            super().aggregate(columns, seed)
            if columns["candidates"].any()
            else build_undefined_interval()
        )


@dataclass(frozen=True)
class NotMajorityOfPools(RatioMetric):
    """Share of wrong final answers among the questions that have a correct candidate."""

    revision: ClassVar[int] = 1

    def compute_terms(self, sample: Sample) -> tuple[float, float]:
        """Return whether an answer is wrong despite a correct candidate, and whether one exists."""
        has_correct_candidate = _has_correct_candidate(sample)
        is_missed = has_correct_candidate and not _is_correct(sample)
        return float(is_missed), float(has_correct_candidate)


def _has_correct_candidate(sample: Sample) -> bool:
    candidates = sample.prediction.candidates
    answers = sample.question.answers
    return bool(candidates and answers) and has_exact_match(candidates, answers)


def _is_correct(sample: Sample) -> bool:
    return bool(exact_match(sample.prediction.answer, sample.question.answers))
