"""Selective answering: how good the answers are of which a strategy is confident, and how many those are."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from winnow.metrics.answer import exact_match
from winnow.metrics.base import MeanMetric, RatioMetric, Sample
from winnow.text.normalization import normalize


@dataclass(frozen=True)
class SelectiveAccuracy(RatioMetric):
    """Share of exact matches among the answers of which the strategy is confident, and which are not "unknown".

    An answer's confidence is the agreement of the candidates: the share of them that are equal to it after normalization.
    Candidates are the answers that vote, from several samples (`decoding=self_consistency`) or from single passages
    (Post-Fusion). The metric is undefined for answers without candidates.

    Args:
        threshold: Lowest confidence, from 0 to 1; 0 takes all answers.

    """

    revision: ClassVar[int] = 1

    threshold: Annotated[float, Ge(0), Le(1)] = 0.8

    def compute_terms(self, sample: Sample) -> tuple[float, float]:
        """Return whether the answer is a confident exact match, and whether it is confident."""
        confidence = compute_agreement(sample)
        is_answered = confidence is not None and confidence >= self.threshold and not sample.prediction.unknown
        is_right = is_answered and exact_match(sample.prediction.answer, sample.question.answers) == 1.0
        return float(is_right), float(is_answered)


@dataclass(frozen=True)
class Coverage(MeanMetric):
    """Share of questions with a confident answer that is not "unknown"; see `SelectiveAccuracy`.

    Args:
        threshold: Lowest confidence, from 0 to 1; 0 takes all answers.

    """

    revision: ClassVar[int] = 1

    threshold: Annotated[float, Ge(0), Le(1)] = 0.8

    def score(self, sample: Sample) -> float | None:
        """Return 1.0 for a confident answer, 0.0 for any other, and None if no candidates were compared."""
        if sample.prediction.unknown:
            return 0.0
        confidence = compute_agreement(sample)
        return None if confidence is None else float(confidence >= self.threshold)


def compute_agreement(sample: Sample) -> float | None:
    """Compute the share of the candidates that are equal to the answer, or None if there are none."""
    candidates = [normalize(candidate) for candidate in sample.prediction.candidates]
    return candidates.count(normalize(sample.prediction.answer)) / len(candidates) if candidates else None
