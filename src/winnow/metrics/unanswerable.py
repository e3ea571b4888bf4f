"""Context sets without an answer: detection by a threshold, abstention, and the risk-coverage curve.

A set is the top k contexts of a question. It is classified as unanswerable if none of its scores exceeds the threshold
(RE-RAG, section 5.3).
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
    """Recall, precision and F1 of detecting sets without an answer, with 95 % bootstrap intervals over questions."""

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
    terms = np.stack([flagged & ~answerable, flagged, ~answerable]).astype(np.float64)  # true positives, flagged, positives
    recall, precision, f1 = (
        _ratio_interval(terms, ratio, seed, resamples)
        for ratio in (
            lambda sums: _ratio(sums[0], sums[2]),
            lambda sums: _ratio(sums[0], sums[1]),
            lambda sums: _ratio(2 * sums[0], sums[1] + sums[2]),
        )
    )
    return DetectionScores(threshold, recall, precision, f1)


def best_threshold(best_scores: Floats, answerable: Labels, thresholds: Sequence[float]) -> float:
    """Return the threshold with the highest F1; the first one wins ties."""
    check_labels(best_scores, answerable)
    if not thresholds:
        raise InputError("A threshold cannot be chosen from an empty list; give at least one.")
    flagged = best_scores[None, :] <= np.asarray(thresholds, dtype=np.float64)[:, None]
    true_positives = (flagged & ~answerable).sum(axis=1)
    f1 = _ratio(2.0 * true_positives, flagged.sum(axis=1) + (~answerable).sum())
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
    with_answer = answerable.astype(np.float64)
    answerable_terms = np.stack([correct * answerable, correct * answerable * answered, with_answer])
    unanswerable_terms = np.stack([(~answerable & ~answered).astype(np.float64), 1 - with_answer])
    n = int(answerable.sum())
    return Abstention(
        _ratio_interval(answerable_terms, lambda sums: _ratio(sums[0], sums[2]), seed, 1000, n),
        _ratio_interval(answerable_terms, lambda sums: _ratio(sums[1], sums[2]), seed, 1000, n),
        _ratio_interval(unanswerable_terms, lambda sums: _ratio(sums[0], sums[1]), seed, 1000, len(answerable) - n),
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


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Divide `part` by `whole`; the ratio is 0 wherever `whole` is 0."""
    ratios: Floats = np.divide(part, whole, out=np.zeros_like(np.asarray(part, dtype=np.float64)), where=whole > 0)
    return ratios


def _ratio_interval(
    terms: Floats, ratio: Callable[[Floats], Floats], seed: int, resamples: int, n: int | None = None
) -> Interval:
    """Compute a ratio of sums over questions with its percentile-bootstrap interval.

    Args:
        terms: (terms, questions) Values to be summed over questions.
        ratio: Function that computes the ratio from the sums, one per term.
        seed: Seed of the bootstrap.
        resamples: Number of bootstrap resamples.
        n: Number of questions that the interval states, or None for all.

    """
    size = terms.shape[1]
    weights = np.random.default_rng(seed).multinomial(size, np.full(size, 1 / size), resamples)
    low, high = np.quantile(ratio(terms @ weights.T), [0.025, 0.975])
    mean = float(ratio(terms.sum(axis=1, keepdims=True))[0])
    return Interval(mean, float(low), float(high), size if n is None else n)
