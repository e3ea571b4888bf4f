"""95 % bootstrap intervals, and paired tests between two cells on the same questions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from winnow.errors import InputError


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % percentile-bootstrap interval over `n` questions."""

    mean: float
    low: float
    high: float
    n: int

    def percent(self) -> str:
        """Render as "41.7 [30.0, 53.3]", in percent."""
        return f"{100 * self.mean:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"

    def plain(self, digits: int = 0) -> str:
        """Render as "812 [790, 833]", without a unit."""
        return f"{self.mean:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The mean difference (first minus second) with its paired-bootstrap interval and McNemar's exact p-value."""

    difference: float
    low: float
    high: float
    p_value: float

    def signed(self, scale: float = 100.0) -> str:
        """Render the difference with its interval, in points of a percentage unless another scale is given."""
        return f"{scale * self.difference:+.1f} [{scale * self.low:+.1f}, {scale * self.high:+.1f}]"


def mean_interval(values: ArrayLike, *, seed: int = 0, resamples: int = 2000) -> Estimate:
    """Return the mean of per-question values with its interval; the same seed gives the same interval."""
    data = _vector(values)
    means = _resampled_means(data, seed, resamples)
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(data.mean()), float(low), float(high), len(data))


def compare(first: ArrayLike, second: ArrayLike, *, seed: int = 0, resamples: int = 2000) -> Comparison:
    """Compare two cells question by question; both are (questions,) in the same order."""
    left, right = _vector(first), _vector(second)
    if len(left) != len(right):
        raise InputError(f"A paired comparison needs the same questions; received {len(left)} and {len(right)} rows.")
    means = _resampled_means(left - right, seed, resamples)
    low, high = np.quantile(means, [0.025, 0.975])
    return Comparison(float((left - right).mean()), float(low), float(high), mcnemar(left, right))


def mcnemar(first: ArrayLike, second: ArrayLike) -> float:
    """Return McNemar's exact two-sided p-value for two vectors of right (1) and wrong (0)."""
    left, right = _vector(first) > 0.5, _vector(second) > 0.5
    only_left, only_right = int((left & ~right).sum()), int((~left & right).sum())
    trials = only_left + only_right
    if trials == 0:
        return 1.0
    tail = sum(math.comb(trials, i) for i in range(min(only_left, only_right) + 1)) / 2**trials
    return min(1.0, 2.0 * float(tail))


def _vector(values: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or not len(data):
        raise InputError(f"An interval needs one value a question; received an array of shape {data.shape}.")
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
