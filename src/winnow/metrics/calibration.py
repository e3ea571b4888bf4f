"""Calibration of relevance scores: reliability, expected calibration error, Platt scaling and misranking rate."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from winnow.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin of a reliability diagram.

    Attributes:
        confidence: Mean confidence of the items.
        accuracy: Share of correct items.
        n: Number of items.

    """

    confidence: float
    accuracy: float
    n: int


def probability(log_odds: NDArray[np.float32]) -> NDArray[np.float32]:
    """Convert log-odds to P("true"), without overflow."""
    odds: NDArray[np.float32] = np.exp(-np.abs(log_odds))
    return np.where(log_odds >= 0, 1 / (1 + odds), odds / (1 + odds)).astype(np.float32)


def reliability(confidence: Floats, correct: NDArray[np.bool_], bins: int = 10) -> list[Bin]:
    """Group probabilities into bins of equal width and compute the accuracy of each; empty bins are omitted."""
    if ((confidence < 0) | (confidence > 1)).any():
        raise InputError(f"Reliability needs probabilities; received {confidence.min()} to {confidence.max()}.")
    bin_index = np.minimum((confidence * bins).astype(int), bins - 1)
    masks = [bin_index == index for index in range(bins)]
    return [Bin(float(confidence[mask].mean()), float(correct[mask].mean()), int(mask.sum())) for mask in masks if mask.any()]


def misranking_rate(scores: Floats, correct: NDArray[np.bool_]) -> float:
    """Compute the probability that a correct item scores below an incorrect one (1 - AUROC); NaN if all have one label.

    The calibration error does not measure this: it is zero for a model that predicts the base rate for every item.
    """
    from sklearn.metrics import roc_auc_score

    check_labels(scores, correct)
    return 1 - float(roc_auc_score(correct, scores)) if 0 < correct.sum() < len(correct) else math.nan


def expected_calibration_error(confidence: Floats, correct: NDArray[np.bool_], bins: int = 10) -> float:
    """Compute the mean gap between confidence and accuracy over bins, weighted by bin size (Naeini et al. 2015)."""
    curve = reliability(confidence, correct, bins)
    return sum(point.n * abs(point.confidence - point.accuracy) for point in curve) / len(confidence)


@dataclass(frozen=True, slots=True)
class Calibration:
    """A linear map of log-odds. The default is the identity."""

    slope: float = 1.0
    offset: float = 0.0

    def __call__(self, log_odds: Floats) -> Floats:
        """Calibrate log-odds."""
        return self.slope * log_odds + self.offset


def calibrate(log_odds: Floats, correct: NDArray[np.bool_]) -> Calibration:
    """Fit Platt scaling (Platt, 1999), a logistic regression of correctness on the log-odds.

    If all labels are equal, the result is the identity. A negative slope means that the scores rank in reverse; the result
    is then a constant, so that calibration never reverses a ranking.
    """
    from sklearn.linear_model import LogisticRegression

    check_labels(log_odds, correct)
    if correct.all() or not correct.any():
        return Calibration()
    model = LogisticRegression(C=np.inf).fit(log_odds[:, None], correct)
    slope = float(model.coef_[0, 0])
    if slope > 0:
        return Calibration(slope, float(model.intercept_[0]))
    base_rate = float(correct.mean())
    return Calibration(0.0, math.log(base_rate / (1 - base_rate)))


def check_labels(scores: Floats, labels: NDArray[np.bool_]) -> None:
    """Raise InputError if scores and labels have different lengths or are empty."""
    if len(scores) != len(labels) or not len(scores):
        raise InputError(f"Each item needs a score and a label; received {len(scores)} scores and {len(labels)} labels.")
