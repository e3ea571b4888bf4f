"""95 % intervals of shares, means and ratios over questions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from winnow.errors import InputError

UNDEFINED = "\N{EN DASH}"
"""Text of a value that is undefined, which is not 0."""
_QUANTILES = (0.025, 0.975)
_NORMAL = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean or ratio over `n` questions with its 95 % interval.

    Attributes:
        mean: Mean or ratio, or NaN if it is undefined.
        low: Lower bound.
        high: Upper bound.
        n: Number of questions for which the value is defined; 0 if it is undefined.
        counts: Numerator and denominator of a ratio, which are printed with it.

    """

    mean: float
    low: float
    high: float
    n: int
    counts: tuple[float, float] | None = None

    def percent(self) -> str:
        """Format the interval in percent, such as "41.7 [30.0, 53.3]", or "33.3 [9.7, 70.0] (2/6)" for a ratio."""
        if not self.n:
            return UNDEFINED
        counts = f" ({self.counts[0]:g}/{self.counts[1]:g})" if self.counts else ""
        return f"{100 * self.mean:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]{counts}"

    def plain(self, digits: int = 0) -> str:
        """Format the interval without a unit, such as "812 [790, 833]"."""
        if not self.n:
            return UNDEFINED
        return f"{self.mean:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


def undefined_interval() -> Interval:
    """Return the interval of a value that is undefined for every question."""
    return Interval(math.nan, math.nan, math.nan, 0)


def mean_interval(values: ArrayLike, *, share: bool = True, seed: int = 0, resamples: int = 2000) -> Interval:
    """Compute the mean of per-question values with its 95 % interval.

    The interval of a share is Wilson's, which also covers near 0 and 1: for 0 of 60 it is 0 to 6.0 %, where a bootstrap would
    have no width. Otherwise it is a percentile bootstrap, which the same seed repeats exactly.

    Args:
        values: (questions,) Values.
        share: Whether the mean is a share if every value is 0 or 1; not so for numbers, such as calls per question.
        seed: Seed of the bootstrap.
        resamples: Number of bootstrap resamples.

    """
    data = as_vector(values)
    if share and is_binary(data):
        low, high = _wilson(data.mean(), len(data))
    else:
        low, high = bounds(resampled_means(data, seed, resamples))
    return Interval(float(data.mean()), low, high, len(data))


def ratio_interval(parts: ArrayLike, wholes: ArrayLike, *, seed: int = 0, resamples: int = 2000) -> Interval:
    """Compute a ratio of two sums over questions, such as a precision, with its 95 % interval and its counts.

    If every question adds 0 or 1 to either, the ratio is a share of the questions in the denominator and its interval is
    Wilson's. Otherwise it is a percentile bootstrap over questions, so that the denominator varies too; where that has no
    width, Wilson's for as many questions as add to the denominator. The ratio is undefined if the denominator is 0.

    Args:
        parts: (questions,) What each question adds to the numerator.
        wholes: (questions,) What each question adds to the denominator, at least as much.
        seed: Seed of the bootstrap.
        resamples: Number of bootstrap resamples.

    """
    terms = np.stack([as_vector(parts), as_vector(wholes)])
    part, whole = (float(total) for total in terms.sum(axis=1))
    if not whole:
        return undefined_interval()
    counted = int((terms[1] > 0).sum())
    is_share = is_binary(terms.ravel())
    low, high = (math.nan, math.nan) if is_share else _resampled_ratios(terms, seed, resamples)
    if is_share or (low == high and part <= whole):
        low, high = _wilson(part / whole, counted)
    return Interval(part / whole, low, high, counted, (part, whole))


def _resampled_ratios(terms: NDArray[np.float64], seed: int, resamples: int) -> tuple[float, float]:
    size = terms.shape[1]
    weights = np.random.default_rng(seed).multinomial(size, np.full(size, 1 / size), resamples)
    parts, wholes = terms @ weights.T
    return bounds(parts[wholes > 0] / wholes[wholes > 0])


def is_binary(values: NDArray[np.float64]) -> bool:
    """Return whether every value is 0 or 1."""
    return bool(np.isin(values, (0.0, 1.0)).all())


def bounds(statistics: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 2.5 % and 97.5 % quantiles of resampled statistics."""
    low, high = np.quantile(statistics, _QUANTILES)
    return float(low), float(high)


def as_vector(values: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
    """Convert values to a vector.

    Raises:
        InputError: If there are no values or any is NaN.

    """
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or not len(data):
        raise InputError(f"An interval needs one value per question; received an array of shape {data.shape}.")
    if np.isnan(data).any():
        raise InputError(f"Row {int(np.isnan(data).argmax())} is NaN; a metric is never averaged over missing values.")
    return data


def _wilson(share: float, trials: int) -> tuple[float, float]:
    """Compute Wilson's score interval of a share. SciPy's takes whole numbers of successes only."""
    squared = _NORMAL**2
    centre = (share + squared / (2 * trials)) / (1 + squared / trials)
    width = _NORMAL / (1 + squared / trials) * math.sqrt(share * (1 - share) / trials + squared / (4 * trials**2))
    low, high = min(share, centre - width), max(share, centre + width)  # rounding may leave 0 or 1 outside
    return max(0.0, float(low)), min(1.0, float(high))


def resampled_means(data: NDArray[np.float64], seed: int, resamples: int) -> NDArray[np.float64]:
    """Compute the means of bootstrap resamples, in chunks of bounded memory."""
    rng = np.random.default_rng(seed)
    chunk = max(1, 2_000_000 // len(data))
    means = [
        data[rng.integers(0, len(data), (min(chunk, resamples - start), len(data)))].mean(axis=1)
        for start in range(0, resamples, chunk)
    ]
    return np.concatenate(means)
