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

    An answer's confidence is the agreement of the replies: the share of the reader's replies whose answer is equal to it after
    normalization, where a reply "unknown" agrees with no answer. The answers are those that vote, from several samples
    (`decoding=self_consistency`) or from single passages (Post-Fusion). The metric is undefined for answers without a vote.

    Args:
        threshold: Lowest confidence, from 0 to 1; 0 takes all answers.

    """

    revision: ClassVar[int] = 2

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

    revision: ClassVar[int] = 2

    threshold: Annotated[float, Ge(0), Le(1)] = 0.8

    def score(self, sample: Sample) -> float | None:
        """Return 1.0 for a confident answer, 0.0 for any other, and None if no replies voted."""
        confidence = compute_agreement(sample)
        return None if confidence is None else float(confidence >= self.threshold and not sample.prediction.unknown)


def compute_agreement(sample: Sample) -> float | None:
    """Compute the share of the reader's replies that agree with the answer, or None if there was no vote.

    A vote has candidates, or is of several replies that are all "unknown".
    """
    prediction = sample.prediction
    num_replies = sum(usage.calls for usage in prediction.usage if usage.role == "reader")
    if not prediction.candidates:
        return 0.0 if prediction.unknown and num_replies > 1 else None
    candidates = [normalize(candidate) for candidate in prediction.candidates]
    return candidates.count(normalize(prediction.answer)) / max(num_replies, len(candidates))
