"""Calibration of relevance scores: reliability, expected calibration error, Platt scaling, and ranking errors."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from winnow.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin of a reliability curve: mean confidence, share of correct items, and their number."""

    confidence: float
    accuracy: float
    n: int


def probability(log_odds: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return P("true") of log-odds, without overflow."""
    odds: NDArray[np.float32] = np.exp(-np.abs(log_odds))
    return np.where(log_odds >= 0, 1 / (1 + odds), odds / (1 + odds)).astype(np.float32)


def reliability(confidence: Floats, correct: NDArray[np.bool_], bins: int = 10) -> list[Bin]:
    """Return equal-width bins of probabilities with the accuracy of each, without empty ones."""
    if ((confidence < 0) | (confidence > 1)).any():
        raise InputError(f"Reliability needs probabilities; received {confidence.min()} to {confidence.max()}.")
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    return [
        Bin(float(confidence[place == n].mean()), float(correct[place == n].mean()), int((place == n).sum()))
        for n in range(bins)
        if (place == n).any()
    ]


def misranking_rate(scores: Floats, correct: NDArray[np.bool_]) -> float:
    """Return the probability that a correct item scores below an incorrect one (1 - AUROC); NaN if all are of one kind.

    The calibration error does not measure this: predicting the base rate for every item has no calibration error.
    """
    from sklearn.metrics import roc_auc_score

    check_labels(scores, correct)
    return 1 - float(roc_auc_score(correct, scores)) if 0 < correct.sum() < len(correct) else math.nan


def expected_calibration_error(confidence: Floats, correct: NDArray[np.bool_], bins: int = 10) -> float:
    """Return the mean distance of confidence and accuracy over bins, weighted by their size (Naeini et al. 2015)."""
    parts = reliability(confidence, correct, bins)
    return sum(part.n * abs(part.confidence - part.accuracy) for part in parts) / len(confidence)


@dataclass(frozen=True, slots=True)
class Calibration:
    """A linear map of log-odds; the default is the identity."""

    slope: float = 1.0
    offset: float = 0.0

    def __call__(self, log_odds: Floats) -> Floats:
        """Return calibrated log-odds."""
        return self.slope * log_odds + self.offset


def calibrate(log_odds: Floats, correct: NDArray[np.bool_]) -> Calibration:
    """Fit Platt scaling (1999), a logistic regression of correctness on log-odds; the identity if all labels are equal.

    A negative slope, of scores that rank in reverse, becomes a constant: calibration never reverses a ranking.
    """
    from sklearn.linear_model import LogisticRegression

    check_labels(log_odds, correct)
    if correct.all() or not correct.any():
        return Calibration()
    model = LogisticRegression(C=np.inf).fit(log_odds[:, None], correct)
    slope = float(model.coef_[0, 0])
    if slope > 0:
        return Calibration(slope, float(model.intercept_[0]))
    share = float(correct.mean())
    return Calibration(0.0, math.log(share / (1 - share)))


def check_labels(scores: Floats, labels: NDArray[np.bool_]) -> None:
    """Raise InputError unless every score has a label."""
    if len(scores) != len(labels) or not len(scores):
        raise InputError(f"Each item needs a score and a label; received {len(scores)} scores and {len(labels)} labels.")
