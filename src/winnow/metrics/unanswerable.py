"""Context sets without an answer: detection by a threshold, abstention, and the risk-coverage curve.

A set is the top k contexts of a question. It is classified as unanswerable if none of its scores exceeds the threshold
(RE-RAG, section 5.3).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from winnow.errors import InputError
from winnow.metrics.calibration import Floats, check_labels
from winnow.metrics.intervals import Interval, ratio_interval

Labels = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DetectionScores:
    """Recall, precision and F1 of detecting sets without an answer, with 95 % intervals over questions.

    Each is undefined, not 0, where its denominator is 0.
    """

    threshold: float
    recall: Interval
    precision: Interval
    f1: Interval


@dataclass(frozen=True, slots=True)
class Abstention:
    """Effect of abstaining on sets that are classified as unanswerable.

    Attributes:
        before: Accuracy on sets with an answer, if every question is answered.
        after: Accuracy on sets with an answer, if withheld answers count as wrong.
        abstained: Share of the sets without an answer whose answers are withheld.

    """

    before: Interval
    after: Interval
    abstained: Interval


def detect_unanswerable(
    best_scores: Floats, answerable: Labels, threshold: float, *, seed: int = 0, resamples: int = 1000
) -> DetectionScores:
    """Compute recall, precision and F1 of classifying sets as unanswerable (RE-RAG, table 4).

    Args:
        best_scores: (questions,) Highest score of each set.
        answerable: (questions,) Whether any context of the set contains an answer.
        threshold: Threshold; sets whose best score does not exceed it are classified as unanswerable.
        seed: Seed of the bootstrap.
        resamples: Number of bootstrap resamples.

    """
    check_labels(best_scores, answerable)
    flagged = best_scores <= threshold
    true_positives = flagged & ~answerable
    recall, precision, overlap = (
        ratio_interval(true_positives, wholes, seed=seed, resamples=resamples)
        for wholes in (~answerable, flagged, flagged | ~answerable)
    )
    return DetectionScores(threshold, recall, precision, _f1_of_overlap(overlap))


def _f1_of_overlap(overlap: Interval) -> Interval:
    """Convert the overlap of flagged and unanswerable sets (intersection over union) to F1, which grows with it."""
    mean, low, high = (2 * share / (1 + share) for share in (overlap.mean, overlap.low, overlap.high))
    return Interval(mean, low, high, overlap.n)


def best_threshold(best_scores: Floats, answerable: Labels, thresholds: Sequence[float]) -> float:
    """Return the threshold with the highest F1; the first one wins ties."""
    check_labels(best_scores, answerable)
    if not thresholds:
        raise InputError("A threshold cannot be chosen from an empty list; give at least one.")
    flagged = best_scores[None, :] <= np.asarray(thresholds, dtype=np.float64)[:, None]
    true_positives = (flagged & ~answerable).sum(axis=1)
    f1 = 2.0 * true_positives / np.maximum(flagged.sum(axis=1) + (~answerable).sum(), 1)
    return float(thresholds[int(np.argmax(f1))])


def abstain(best_scores: Floats, answerable: Labels, correct: Floats, threshold: float, *, seed: int = 0) -> Abstention:
    """Compute the effect of abstaining on sets whose best score does not exceed a threshold (RE-RAG, table 5).

    Args:
        best_scores: (questions,) Highest score of each set.
        answerable: (questions,) Whether any context of the set contains an answer.
        correct: (questions,) Exact match of each answer.
        threshold: Threshold; answers to sets whose best score does not exceed it are withheld.
        seed: Seed of the bootstrap.

    """
    check_labels(best_scores, answerable)
    answered = best_scores > threshold
    return Abstention(
        ratio_interval(correct * answerable, answerable, seed=seed),
        ratio_interval(correct * answerable * answered, answerable, seed=seed),
        ratio_interval(~answerable & ~answered, ~answerable, seed=seed),
    )


def risk_coverage(confidence: Floats, correct: Floats) -> tuple[Floats, Floats]:
    """Compute the risk-coverage curve. Questions of equal confidence enter together.

    Args:
        confidence: (questions,) Confidence in each answer.
        correct: (questions,) Exact match of each answer.

    Returns:
        The coverages, and at each of them the risk: the share of wrong answers among the most confident questions.

    """
    order = np.argsort(-confidence, kind="stable")
    errors = np.cumsum(1 - correct[order])
    count = np.arange(1, len(order) + 1)
    last_of_tie = np.append(np.diff(confidence[order]) != 0, True)
    return (count / len(order))[last_of_tie], (errors / count)[last_of_tie]


def area_under_risk(confidence: Floats, correct: Floats) -> float:
    """Compute the area under the risk-coverage curve: 0 is perfect, and a random order gives the overall risk."""
    coverage, risk = risk_coverage(confidence, correct)
    return float((risk * np.diff(coverage, prepend=0.0)).sum())
