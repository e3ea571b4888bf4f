"""Context sets without an answer: detection by threshold, abstention and the risk-coverage curve.

A set consists of the top k contexts of a question. It is answerable if any of them contains an
answer. It is classified as unanswerable if none of its relevance scores exceeds a threshold
(RE-RAG, section 5.3).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from winnow.errors import InputError
from winnow.metrics.calibration import Floats, check_labels
from winnow.metrics.intervals import Interval, compute_ratio_interval

Labels = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DetectionScores:
    """Recall, precision and F1 of detecting sets without an answer, with 95 % intervals over
    questions.

    A score is undefined instead of 0 if its denominator is 0.

    Attributes:
        threshold: Score that the best context of a set must exceed for the set to be classified as
            answerable.
        recall: Share of the sets without an answer that are classified as unanswerable.
        precision: Share of the sets classified as unanswerable that contain no answer.
        f1: Harmonic mean of recall and precision.
    """

    threshold: float
    recall: Interval
    precision: Interval
    f1: Interval


@dataclass(frozen=True, slots=True)
class Abstention:
    """Effect of abstaining on sets that are classified as unanswerable.

    Attributes:
        accuracy_before: Accuracy on sets with an answer if every question is answered.
        accuracy_after: Accuracy on sets with an answer if withheld answers count as wrong.
        abstention_rate: Share of the sets without an answer whose answers are withheld.
    """

    accuracy_before: Interval
    accuracy_after: Interval
    abstention_rate: Interval


def evaluate_detection(
    best_scores: Floats,
    answerable: Labels,
    threshold: float,
    *,
    seed: int = 0,
    resamples: int = 1000,
) -> DetectionScores:
    """Compute recall, precision and F1 of classifying sets as unanswerable (RE-RAG, table 4).

    Args:
        best_scores: (questions,) Highest score of each set.
        answerable: (questions,) Whether any context of the set contains an answer.
        threshold: Sets whose best score does not exceed this value are classified as unanswerable.
        seed: Seed of the bootstrap.
        resamples: Number of bootstrap resamples.
    """
    check_labels(best_scores, answerable)
    flagged = best_scores <= threshold
    true_positives = flagged & ~answerable
    recall, precision, overlap = (
        compute_ratio_interval(true_positives, denominator, seed=seed, resamples=resamples)
        for denominator in (~answerable, flagged, flagged | ~answerable)
    )
    return DetectionScores(threshold, recall, precision, _convert_overlap_to_f1(overlap))


def _convert_overlap_to_f1(overlap: Interval) -> Interval:
    """Convert the intersection over union of flagged and unanswerable sets monotonically to F1."""
    mean, low, high = (
        2 * share / (1 + share) for share in (overlap.mean, overlap.low, overlap.high)
    )
    return Interval(mean, low, high, overlap.n)


def select_threshold(best_scores: Floats, answerable: Labels, thresholds: Sequence[float]) -> float:
    """Return the first threshold that detects sets without an answer with the highest F1.

    If every set has an answer, F1 is 0 for all thresholds, and the first one is returned.

    Args:
        best_scores: (questions,) Highest score of each set.
        answerable: (questions,) Whether any context of the set contains an answer.
        thresholds: Thresholds to compare.
    """
    check_labels(best_scores, answerable)
    if not thresholds:
        raise InputError(
            "A threshold cannot be chosen from an empty list. Provide at least one threshold."
        )
    flagged = best_scores[None, :] <= np.asarray(thresholds, dtype=np.float64)[:, None]
    true_positives = (flagged & ~answerable).sum(axis=1)
    f1 = 2.0 * true_positives / np.maximum(flagged.sum(axis=1) + (~answerable).sum(), 1)
    return float(thresholds[int(np.argmax(f1))])


def evaluate_abstention(
    best_scores: Floats, answerable: Labels, correct: Floats, threshold: float, *, seed: int = 0
) -> Abstention:
    """Compute the effect of abstaining on sets with no score above a threshold (RE-RAG, table 5).

    Args:
        best_scores: (questions,) Highest score of each set.
        answerable: (questions,) Whether any context of the set contains an answer.
        correct: (questions,) Exact match of each answer.
        threshold: The answer is withheld if the best score of the set does not exceed this value.
        seed: Seed of the bootstrap.
    """
    check_labels(best_scores, answerable)
    is_answered = best_scores > threshold
    return Abstention(
        compute_ratio_interval(correct * answerable, answerable, seed=seed),
        compute_ratio_interval(correct * answerable * is_answered, answerable, seed=seed),
        compute_ratio_interval(~answerable & ~is_answered, ~answerable, seed=seed),
    )


def compute_risk_coverage(confidence: Floats, correct: Floats) -> tuple[Floats, Floats]:
    """Compute the risk-coverage curve, in which questions of equal confidence share one point.

    Args:
        confidence: (questions,) Confidence in each answer.
        correct: (questions,) Exact match of each answer.

    Returns:
        The coverages, which are shares of the questions, most confident first, and for each
        coverage the risk, which is the share of wrong answers among the questions that it covers.

    Raises:
        InputError: If a confidence is NaN.
    """
    if np.isnan(confidence).any():
        raise InputError(
            f"The confidence in answer {int(np.isnan(confidence).argmax())} is NaN. Leave out "
            "answers without one."
        )
    order = np.argsort(-confidence, kind="stable")
    num_errors = np.cumsum(1 - correct[order])
    num_covered = np.arange(1, len(order) + 1)
    sorted_confidence = confidence[order]
    is_last_of_tie = np.append(sorted_confidence[1:] != sorted_confidence[:-1], True)
    return (num_covered / len(order))[is_last_of_tie], (num_errors / num_covered)[is_last_of_tie]


def compute_area_under_risk(confidence: Floats, correct: Floats) -> float:
    """Compute the area under the risk-coverage curve: 0 at best, the overall risk in random order.

    Args:
        confidence: (questions,) Confidence in each answer.
        correct: (questions,) Exact match of each answer.
    """
    coverage, risk = compute_risk_coverage(confidence, correct)
    return float((risk * np.diff(coverage, prepend=0.0)).sum())
