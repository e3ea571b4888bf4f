"""Context sets that hold no answer: finding them by a threshold, what that does to accuracy, and what scores are worth.

A set is a question's top k contexts. It is called unanswerable if none of them passes the threshold (RE-RAG, section 5.3).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from winnow.errors import InputError
from winnow.metrics.intervals import Estimate

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SetScores:
    """How well a threshold finds the sets without an answer, each with its 95 % bootstrap interval over questions."""

    threshold: float
    recall: Estimate
    precision: Estimate
    f1: Estimate


@dataclass(frozen=True, slots=True)
class Refusal:
    """Accuracy on sets with an answer before and after refusing, and the share refused of those without one (table 5)."""

    before: Estimate
    after: Estimate
    refused: Estimate


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin of a reliability curve: mean confidence, share that was right, and how many fell into it."""

    confidence: float
    right: float
    n: int


def classify(best: Floats, holds: NDArray[np.bool_], threshold: float, *, seed: int = 0, resamples: int = 1000) -> SetScores:
    """Return recall, precision and F1 of "this set holds no answer" (table 4).

    Args:
        best: (questions,) the highest score of a set.
        holds: (questions,) whether any context of the set has the answer.
        threshold: a set is called unanswerable if its best score does not pass it.
        seed: of the bootstrap.
        resamples: of the bootstrap.

    """
    _check(best, holds)
    called = best <= threshold
    counts = np.stack([called & ~holds, called, ~holds]).astype(np.float64)  # found, called, sets without an answer
    recall, precision, f1 = (
        _interval(counts, measure, seed, resamples)
        for measure in (
            lambda c: _share(c[0], c[2]),
            lambda c: _share(c[0], c[1]),
            lambda c: _share(2 * c[0], c[1] + c[2]),
        )
    )
    return SetScores(threshold, recall, precision, f1)


def best_threshold(best: Floats, holds: NDArray[np.bool_], thresholds: Sequence[float]) -> float:
    """Return the threshold with the highest F1; the lowest of equal ones."""
    _check(best, holds)
    if not thresholds:
        raise InputError("A threshold cannot be chosen from none; give at least one.")
    called = best[None, :] <= np.asarray(thresholds, dtype=np.float64)[:, None]
    found = (called & ~holds).sum(axis=1)
    f1 = _share(2.0 * found, called.sum(axis=1) + (~holds).sum())
    return float(thresholds[int(np.argmax(f1))])


def refuse(best: Floats, holds: NDArray[np.bool_], right: Floats, threshold: float, *, seed: int = 0) -> Refusal:
    """Return what answering "unanswerable" does to accuracy; an answer to a set without one counts as wrong before."""
    _check(best, holds)
    kept = best > threshold
    both = np.stack([right * holds, right * holds * kept, (~holds & ~kept).astype(np.float64), holds.astype(np.float64)])
    return Refusal(
        _interval(both, lambda c: _share(c[0], c[3]), seed, 1000, int(holds.sum())),
        _interval(both, lambda c: _share(c[1], c[3]), seed, 1000, int(holds.sum())),
        _interval(np.stack([both[2], 1 - both[3]]), lambda c: _share(c[0], c[1]), seed, 1000, int((~holds).sum())),
    )


def risk_coverage(confidence: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Return (questions,) coverage and the risk among the most confident so many; equal confidences enter together."""
    order = np.argsort(-confidence, kind="stable")
    wrong = np.cumsum(1 - right[order])
    count = np.arange(1, len(order) + 1)
    last = np.append(np.diff(confidence[order]) != 0, True)
    return (count / len(order))[last], (wrong / count)[last]


def area_under_risk(confidence: Floats, right: Floats) -> float:
    """Return the mean risk over coverages, 0 at best; a random order gives the overall risk."""
    coverage, risk = risk_coverage(confidence, right)
    return float((risk * np.diff(coverage, prepend=0.0)).sum())


def reliability(confidence: Floats, right: NDArray[np.bool_], bins: int = 10) -> list[Bin]:
    """Return equal-width bins of probabilities with the share that was right in each; empty ones are left out."""
    if ((confidence < 0) | (confidence > 1)).any():
        raise InputError(f"Reliability is of probabilities; received {confidence.min()} to {confidence.max()}.")
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    return [
        Bin(float(confidence[place == n].mean()), float(right[place == n].mean()), int((place == n).sum()))
        for n in range(bins)
        if (place == n).any()
    ]


def misordered(scores: Floats, right: NDArray[np.bool_]) -> float:
    """Return the chance that one of the right scores below one of the others, 1 - AUROC; NaN where there are but one kind.

    A calibration error says nothing of it: the same probability for all, the base rate, has none.
    """
    from sklearn.metrics import roc_auc_score

    _check(scores, right)
    return 1 - float(roc_auc_score(right, scores)) if 0 < right.sum() < len(right) else math.nan


def expected_calibration_error(confidence: Floats, right: NDArray[np.bool_], bins: int = 10) -> float:
    """Return the mean distance of confidence and share right over bins, weighted by their size (Naeini et al. 2015)."""
    found = reliability(confidence, right, bins)
    return sum(one.n * abs(one.confidence - one.right) for one in found) / len(confidence)


@dataclass(frozen=True, slots=True)
class Calibration:
    """A line through log-odds after which they say how often they are right; as it stands, it changes nothing."""

    slope: float = 1.0
    offset: float = 0.0

    def __call__(self, log_odds: Floats) -> Floats:
        """Return calibrated log-odds."""
        return self.slope * log_odds + self.offset


def calibrate(log_odds: Floats, right: NDArray[np.bool_]) -> Calibration:
    """Fit Platt's logistic regression (1999) of being right on the log-odds; none where all are right or all wrong.

    A falling line, of scores that rank backwards, becomes a level one: the order of scores is theirs to answer for.
    """
    from sklearn.linear_model import LogisticRegression

    _check(log_odds, right)
    if right.all() or not right.any():
        return Calibration()
    fitted = LogisticRegression(C=np.inf).fit(log_odds[:, None], right)
    slope = float(fitted.coef_[0, 0])
    if slope > 0:
        return Calibration(slope, float(fitted.intercept_[0]))
    share = float(right.mean())
    return Calibration(0.0, math.log(share / (1 - share)))


def _check(best: Floats, holds: NDArray[np.bool_]) -> None:
    if len(best) != len(holds) or not len(best):
        raise InputError(f"Each set needs a score and a label; received {len(best)} scores and {len(holds)} labels.")


def _share(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, 0 where there is no whole."""
    shares: Floats = np.divide(part, whole, out=np.zeros_like(np.asarray(part, dtype=np.float64)), where=whole > 0)
    return shares


def _interval(
    counts: Floats, measure: Callable[[Floats], Floats], seed: int, resamples: int, n: int | None = None
) -> Estimate:
    """Return a ratio of sums over questions with its percentile-bootstrap interval; counts: (sums, questions)."""
    size = counts.shape[1]
    drawn = np.random.default_rng(seed).multinomial(size, np.full(size, 1 / size), resamples)
    low, high = np.quantile(measure(counts @ drawn.T), [0.025, 0.975])
    mean = float(measure(counts.sum(axis=1, keepdims=True))[0])
    return Estimate(mean, float(low), float(high), size if n is None else n)
