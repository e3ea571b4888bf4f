"""95 % bootstrap intervals, and paired tests between two cells on the same questions."""

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
        """Return text such as "41.7 [30.0, 53.3]", in percent."""
        return f"{100 * self.mean:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"

    def plain(self, digits: int = 0) -> str:
        """Return text such as "812 [790, 833]", without a unit."""
        return f"{self.mean:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The mean difference (first minus second) with its paired-bootstrap interval and McNemar's exact p-value.

    The test needs values of 0 and 1; otherwise `p_value` is NaN.
    """

    difference: float
    low: float
    high: float
    p_value: float

    @property
    def p_text(self) -> str:
        """Return the p-value as text, "-" where there is none."""
        return "-" if math.isnan(self.p_value) else f"{self.p_value:.3f}"

    def signed(self, scale: float = 100.0) -> str:
        """Return the difference with its interval as text, in percentage points by default."""
        return f"{scale * self.difference:+.1f} [{scale * self.low:+.1f}, {scale * self.high:+.1f}]"


def mean_interval(values: ArrayLike, *, seed: int = 0, resamples: int = 2000) -> Interval:
    """Return the mean of per-question values with its interval; the same seed gives the same interval."""
    data = _vector(values)
    means = _resampled_means(data, seed, resamples)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(data.mean()), float(low), float(high), len(data))


def compare(first: ArrayLike, second: ArrayLike, *, seed: int = 0, resamples: int = 2000) -> Comparison:
    """Compare two cells question by question; both are (questions,) in the same order."""
    left, right = _vector(first), _vector(second)
    if len(left) != len(right):
        raise InputError(f"A paired comparison needs the same questions; received {len(left)} and {len(right)} rows.")
    means = _resampled_means(left - right, seed, resamples)
    low, high = np.quantile(means, [0.025, 0.975])
    binary = bool(np.isin(np.concatenate([left, right]), (0.0, 1.0)).all())
    p_value = mcnemar(left, right) if binary else math.nan
    return Comparison(float((left - right).mean()), float(low), float(high), p_value)


def mcnemar(first: ArrayLike, second: ArrayLike) -> float:
    """Return the exact two-sided p-value of McNemar's test for two vectors of correct (1) and incorrect (0) answers."""
    from scipy.stats import binomtest

    left, right = _vector(first) > 0.5, _vector(second) > 0.5
    only_left, only_right = int((left & ~right).sum()), int((~left & right).sum())
    if only_left + only_right == 0:
        return 1.0
    return float(binomtest(only_left, only_left + only_right, 0.5).pvalue)


def _vector(values: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
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
