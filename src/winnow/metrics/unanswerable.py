"""Context sets without an answer: detecting them by a threshold, abstaining on them, and risk against coverage.

A set is a question's top k contexts. It is classified as unanswerable if no score passes the threshold (RE-RAG, section
5.3).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from winnow.errors import InputError
from winnow.metrics.calibration import Floats, check_labels
from winnow.metrics.intervals import Interval

Labels = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DetectionScores:
    """How well a threshold detects sets without an answer, with 95 % bootstrap intervals over questions."""

    threshold: float
    recall: Interval
    precision: Interval
    f1: Interval


@dataclass(frozen=True, slots=True)
class Abstention:
    """Accuracy on sets with an answer before and after abstaining, and the share of the others that is abstained on."""

    before: Interval
    after: Interval
    abstained: Interval


def detect_unanswerable(
    best_scores: Floats, answerable: Labels, threshold: float, *, seed: int = 0, resamples: int = 1000
) -> DetectionScores:
    """Return recall, precision and F1 of "this set holds no answer" (RE-RAG, table 4).

    Args:
        best_scores: (questions,) the highest score of each set.
        answerable: (questions,) whether any context of the set has the answer.
        threshold: a set is classified as unanswerable if its best score does not exceed it.
        seed: of the bootstrap.
        resamples: of the bootstrap.

    """
    check_labels(best_scores, answerable)
    flagged = best_scores <= threshold
    sums = np.stack([flagged & ~answerable, flagged, ~answerable]).astype(np.float64)  # true positives, flagged, positives
    recall, precision, f1 = (
        _ratio_interval(sums, ratio, seed, resamples)
        for ratio in (
            lambda c: _ratio(c[0], c[2]),
            lambda c: _ratio(c[0], c[1]),
            lambda c: _ratio(2 * c[0], c[1] + c[2]),
        )
    )
    return DetectionScores(threshold, recall, precision, f1)


def best_threshold(best_scores: Floats, answerable: Labels, thresholds: Sequence[float]) -> float:
    """Return the threshold with the highest F1, the lowest of equal ones."""
    check_labels(best_scores, answerable)
    if not thresholds:
        raise InputError("A threshold cannot be chosen from an empty list; give at least one.")
    flagged = best_scores[None, :] <= np.asarray(thresholds, dtype=np.float64)[:, None]
    true_positives = (flagged & ~answerable).sum(axis=1)
    f1 = _ratio(2.0 * true_positives, flagged.sum(axis=1) + (~answerable).sum())
    return float(thresholds[int(np.argmax(f1))])


def abstain(best_scores: Floats, answerable: Labels, correct: Floats, threshold: float, *, seed: int = 0) -> Abstention:
    """Return the effect of abstaining below a threshold (RE-RAG, table 5).

    Args:
        best_scores: (questions,) the highest score of each set.
        answerable: (questions,) whether any context of the set has the answer.
        correct: (questions,) exact match of each answer.
        threshold: answers to sets whose best score does not exceed it are withheld.
        seed: of the bootstrap.

    """
    check_labels(best_scores, answerable)
    kept = best_scores > threshold
    positives = answerable.astype(np.float64)
    answers = np.stack([correct * answerable, correct * answerable * kept, positives])
    others = np.stack([(~answerable & ~kept).astype(np.float64), 1 - positives])
    n = int(answerable.sum())
    return Abstention(
        _ratio_interval(answers, lambda c: _ratio(c[0], c[2]), seed, 1000, n),
        _ratio_interval(answers, lambda c: _ratio(c[1], c[2]), seed, 1000, n),
        _ratio_interval(others, lambda c: _ratio(c[0], c[1]), seed, 1000, len(answerable) - n),
    )


def risk_coverage(confidence: Floats, correct: Floats) -> tuple[Floats, Floats]:
    """Return coverages and the risk among the most confident questions at each; equal confidences enter together."""
    order = np.argsort(-confidence, kind="stable")
    errors = np.cumsum(1 - correct[order])
    count = np.arange(1, len(order) + 1)
    last = np.append(np.diff(confidence[order]) != 0, True)
    return (count / len(order))[last], (errors / count)[last]


def area_under_risk(confidence: Floats, correct: Floats) -> float:
    """Return the mean risk over coverages: 0 is perfect, a random order gives the overall risk."""
    coverage, risk = risk_coverage(confidence, correct)
    return float((risk * np.diff(coverage, prepend=0.0)).sum())


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, 0 where the denominator is 0."""
    ratios: Floats = np.divide(part, whole, out=np.zeros_like(np.asarray(part, dtype=np.float64)), where=whole > 0)
    return ratios


def _ratio_interval(
    sums: Floats, ratio: Callable[[Floats], Floats], seed: int, resamples: int, n: int | None = None
) -> Interval:
    """Return a ratio of sums over questions with its percentile-bootstrap interval; sums: (terms, questions)."""
    size = sums.shape[1]
    weights = np.random.default_rng(seed).multinomial(size, np.full(size, 1 / size), resamples)
    low, high = np.quantile(ratio(sums @ weights.T), [0.025, 0.975])
    mean = float(ratio(sums.sum(axis=1, keepdims=True))[0])
    return Interval(mean, float(low), float(high), size if n is None else n)
