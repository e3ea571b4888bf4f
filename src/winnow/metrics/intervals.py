"""95 % bootstrap intervals, and paired tests of two cells on the same questions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from winnow.errors import InputError


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % percentile-bootstrap interval over `n` questions."""

    mean: float
    low: float
    high: float
    n: int

    def percent(self) -> str:
        """Format the interval in percent, such as "41.7 [30.0, 53.3]"."""
        return f"{100 * self.mean:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"

    def plain(self, digits: int = 0) -> str:
        """Format the interval without a unit, such as "812 [790, 833]"."""
        return f"{self.mean:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of a paired comparison of two cells.

    Attributes:
        difference: Mean difference, first minus second.
        low: Lower bound of the 95 % paired-bootstrap interval.
        high: Upper bound of the 95 % paired-bootstrap interval.
        p_value: Exact p-value of McNemar's test, or NaN unless all values are 0 or 1.

    """

    difference: float
    low: float
    high: float
    p_value: float

    @property
    def p_text(self) -> str:
        """Return the p-value as text, or "-" if it is NaN."""
        return "-" if math.isnan(self.p_value) else f"{self.p_value:.3f}"

    def signed(self, scale: float = 100.0) -> str:
        """Format the difference with its interval, in percentage points by default."""
        return f"{scale * self.difference:+.1f} [{scale * self.low:+.1f}, {scale * self.high:+.1f}]"


def mean_interval(values: ArrayLike, *, seed: int = 0, resamples: int = 2000) -> Interval:
    """Compute the mean of per-question values with its bootstrap interval. The same seed gives the same interval."""
    data = _as_vector(values)
    means = _resampled_means(data, seed, resamples)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(data.mean()), float(low), float(high), len(data))


def compare(first: ArrayLike, second: ArrayLike, *, seed: int = 0, resamples: int = 2000) -> Comparison:
    """Compare two cells question by question.

    Args:
        first: (questions,) Values of the first cell.
        second: (questions,) Values of the second cell, in the same order of questions.
        seed: Seed of the bootstrap.
        resamples: Number of bootstrap resamples.

    """
    first_values, second_values = _as_vector(first), _as_vector(second)
    if len(first_values) != len(second_values):
        raise InputError(
            f"A paired comparison needs the same questions; received {len(first_values)} and {len(second_values)} rows."
        )
    differences = first_values - second_values
    means = _resampled_means(differences, seed, resamples)
    low, high = np.quantile(means, [0.025, 0.975])
    binary = bool(np.isin(np.concatenate([first_values, second_values]), (0.0, 1.0)).all())
    p_value = mcnemar(first_values, second_values) if binary else math.nan
    return Comparison(float(differences.mean()), float(low), float(high), p_value)


def mcnemar(first: ArrayLike, second: ArrayLike) -> float:
    """Compute the exact two-sided p-value of McNemar's test for two vectors of correct (1) and incorrect (0) answers."""
    from scipy.stats import binomtest

    first_correct, second_correct = _as_vector(first) > 0.5, _as_vector(second) > 0.5
    only_first, only_second = int((first_correct & ~second_correct).sum()), int((~first_correct & second_correct).sum())
    if only_first + only_second == 0:
        return 1.0
    return float(binomtest(only_first, only_first + only_second, 0.5).pvalue)


def _as_vector(values: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or not len(data):
        raise InputError(f"An interval needs one value per question; received an array of shape {data.shape}.")
    if np.isnan(data).any():
        raise InputError(f"Row {int(np.isnan(data).argmax())} is NaN; a metric is never averaged over missing values.")
    return data


def _resampled_means(data: NDArray[np.float64], seed: int, resamples: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    chunk = max(1, 2_000_000 // len(data))
    means = [
        data[rng.integers(0, len(data), (min(chunk, resamples - start), len(data)))].mean(axis=1)
        for start in range(0, resamples, chunk)
    ]
    return np.concatenate(means)
