"""Calibration of relevance scores: reliability diagram, ECE, Platt scaling and misranking rate.

An item is a question with one of its contexts. It is correct if the context contains an answer.
"""

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
        confidence: Mean confidence of the items in the bin.
        accuracy: Share of correct items in the bin.
        n: Number of items in the bin.
    """

    confidence: float
    accuracy: float
    n: int


def compute_probability(log_odds: NDArray[np.float32]) -> NDArray[np.float32]:
    """Convert log-odds of "true" against "false" to probabilities of "true", without overflow."""
    odds: NDArray[np.float32] = np.exp(-np.abs(log_odds))
    return np.where(log_odds >= 0, 1 / (1 + odds), odds / (1 + odds)).astype(np.float32)


def compute_reliability(
    confidence: Floats, correct: NDArray[np.bool_], num_bins: int = 10
) -> list[Bin]:
    """Compute a reliability diagram: the accuracy of items in non-empty bins of equal width.

    Args:
        confidence: (items,) Predicted probability of each item.
        correct: (items,) Whether each item is correct.
        num_bins: Number of bins between 0 and 1.
    """
    if not ((confidence >= 0) & (confidence <= 1)).all():
        raise InputError(
            "A reliability diagram needs probabilities from 0 to 1; received values from "
            f"{confidence.min()} to {confidence.max()}. Convert log-odds to probabilities first."
        )
    bin_index = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    masks = [bin_index == index for index in range(num_bins)]
    return [
        Bin(float(confidence[mask].mean()), float(correct[mask].mean()), int(mask.sum()))
        for mask in masks
        if mask.any()
    ]


def misranking_rate(scores: Floats, correct: NDArray[np.bool_]) -> float:
    """Compute the probability that a correct item scores below an incorrect one (1 - AUROC).

    The rate is NaN if all items have the same label. The calibration error does not measure
    misranking: it is 0 for a model that predicts the base rate for every item.
    """
    from sklearn.metrics import roc_auc_score

    check_labels(scores, correct)
    has_both_labels = 0 < correct.sum() < len(correct)
    return 1 - float(roc_auc_score(correct, scores)) if has_both_labels else math.nan


def expected_calibration_error(
    confidence: Floats, correct: NDArray[np.bool_], num_bins: int = 10
) -> float:
    """Compute the mean confidence-accuracy gap of bins, weighted by size (Naeini et al., 2015)."""
    bins = compute_reliability(confidence, correct, num_bins)
    return sum(one_bin.n * abs(one_bin.confidence - one_bin.accuracy) for one_bin in bins) / len(
        confidence
    )


@dataclass(frozen=True, slots=True)
class Calibration:
    """The linear function slope * log_odds + offset, which calibrates log-odds. The default is the
    identity.
    """

    slope: float = 1.0
    offset: float = 0.0

    def __call__(self, log_odds: Floats) -> Floats:
        """Return the calibrated log-odds."""
        return self.slope * log_odds + self.offset


def fit_platt_scaling(log_odds: Floats, correct: NDArray[np.bool_]) -> Calibration:
    """Fit Platt scaling (Platt, 1999), a logistic regression of correctness on the log-odds.

    The result is the identity if all labels are equal. If the fitted slope is not positive, the
    result is the constant log-odds of the base rate, so that calibration never reverses a ranking.
    """
    from sklearn.linear_model import LogisticRegression

    check_labels(log_odds, correct)
    if correct.all() or not correct.any():
        return Calibration()
    center, spread = float(log_odds.mean()), float(log_odds.std()) or 1.0
    standardized = (log_odds - center) / spread  # without it, the solver may not converge
    model = LogisticRegression(C=np.inf).fit(standardized[:, None], correct)
    slope = float(model.coef_[0, 0]) / spread
    if slope > 0:
        return Calibration(slope, float(model.intercept_[0]) - slope * center)
    base_rate = float(correct.mean())
    return Calibration(0.0, math.log(base_rate / (1 - base_rate)))


def check_labels(scores: Floats, labels: NDArray[np.bool_]) -> None:
    """Raise InputError if scores and labels have different lengths or are empty."""
    if len(scores) != len(labels) or not len(scores):
        raise InputError(
            "One score and one label are needed for each of at least one item; "
            f"received {len(scores)} scores and {len(labels)} labels."
        )
