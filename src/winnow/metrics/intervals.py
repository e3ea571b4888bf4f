"""95 % intervals of shares, means and ratios that are computed over questions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from winnow.errors import InputError

UNDEFINED = "\N{EN DASH}"
"""Text that is printed for an undefined value."""
_BOUND_QUANTILES = (0.025, 0.975)
SIGNIFICANCE_LEVEL = 0.05
"""P-value below which a difference is called significant."""
NORMAL_QUANTILE = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""
MIN_DISCORDANT = 6
"""Number of discordant questions below which no exact test reaches p < 0.05 (2 / 2**5 > 0.05)."""
_MAX_CHUNK_VALUES = 2_000_000
"""Maximum number of values to draw at once for a bootstrap."""
MIN_DEVIATING = 10
"""Number of questions without the modal value below which a bootstrap interval is too narrow."""
_MAX_RESAMPLED = 20_000
"""Number of questions above which means of resamples are drawn from their normal distribution."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean or ratio over `n` questions with its 95 % interval.

    Attributes:
        mean: Mean or ratio, or NaN if it is undefined.
        low: Lower bound.
        high: Upper bound.
        n: Number of questions for which the value is defined; 0 if it is undefined.
        counts: Numerator and denominator of a ratio, which are printed with it; None for a mean.
    """

    mean: float
    low: float
    high: float
    n: int
    counts: tuple[float, float] | None = None

    def format_percent(self) -> str:
        """Format in percent: "41.7 [30.0, 53.3]" or, for a ratio, "33.3 [9.7, 70.0] (2/6)"."""
        if not self.n:
            return UNDEFINED
        counts = f" ({self.counts[0]:.12g}/{self.counts[1]:.12g})" if self.counts else ""
        return f"{100 * self.mean:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]{counts}"

    def format_number(self, digits: int = 0) -> str:
        """Format the interval without a unit, such as "812 [790, 833]"."""
        if not self.n:
            return UNDEFINED
        return f"{self.mean:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


def build_undefined_interval() -> Interval:
    """Return the interval of a value that is undefined for every question."""
    return Interval(math.nan, math.nan, math.nan, 0)


def compute_mean_interval(
    values: ArrayLike, *, is_share: bool = True, seed: int = 0, resamples: int = 2000
) -> Interval:
    """Compute the mean of per-question values with its 95 % interval.

    A share has Wilson's interval, which is also accurate near 0 and 1: for 0 of 60 questions it
    ranges from 0 to 6.0 %, while a bootstrap interval would have no width. Any other mean has a
    percentile bootstrap interval. If all values are from 0 to 1 and fewer than ten differ from the
    most frequent one, that interval is too narrow, and is extended to Wilson's for a share of this
    size, which is wider than for any such values.

    Args:
        values: (questions,) Value of each question.
        is_share: Whether the mean of values that are all 0 or 1 is a share. It is not for a number
            such as calls per question.
        seed: Seed of the bootstrap.
        resamples: Number of bootstrap resamples.
    """
    data = as_vector(values)
    if is_share and is_binary(data):
        low, high = _compute_wilson_bounds(data.mean(), len(data))
    else:
        low, high = compute_bounds(resample_means(data, seed, resamples))
        if is_share and is_fraction(data):
            low, high = widen_bounds((low, high), float(data.mean()), data[None])
    return Interval(float(data.mean()), low, high, len(data))


def compute_ratio_interval(
    numerators: ArrayLike, denominators: ArrayLike, *, seed: int = 0, resamples: int = 2000
) -> Interval:
    """Compute a ratio of two sums over questions (e.g. precision), its 95 % interval and the sums.

    If every question adds 0 or 1 to both sums, and no more to the numerator than to the
    denominator, the ratio is a share of the questions and has Wilson's interval. Any other ratio
    has a percentile bootstrap interval over questions, in which the denominator varies too. If that
    interval has no width and the ratio is at most 1, it is replaced by Wilson's interval for the
    number of questions that add to the denominator. If no question adds more to the numerator than
    to the denominator, and fewer than ten have other terms than the most frequent ones, it is
    extended to that. The ratio is undefined if the denominator is 0.

    Args:
        numerators: (questions,) Amount that each question adds to the numerator.
        denominators: (questions,) Amount that each question adds to the denominator.
        seed: Seed of the bootstrap.
        resamples: Number of bootstrap resamples.
    """
    terms = np.stack([as_vector(numerators), as_vector(denominators)])
    numerator, denominator = (float(total) for total in terms.sum(axis=1))
    if not denominator:
        return build_undefined_interval()
    num_counted = int((terms[1] > 0).sum())
    ratio, is_part = numerator / denominator, bool((terms[0] <= terms[1]).all())
    if is_part and is_binary(terms.ravel()):
        low, high = _compute_wilson_bounds(ratio, num_counted)
    else:
        low, high = _bootstrap_ratio_bounds(terms, seed, resamples)
        if math.isclose(low, high, rel_tol=1e-9) and numerator <= denominator:
            low, high = _compute_wilson_bounds(ratio, num_counted)
        elif is_part:
            low, high = widen_bounds((low, high), ratio, terms[:, terms[1] > 0])
    return Interval(ratio, low, high, num_counted, (numerator, denominator))


def _bootstrap_ratio_bounds(
    terms: NDArray[np.float64], seed: int, resamples: int
) -> tuple[float, float]:
    """Compute the bounds of a percentile bootstrap interval, without resamples of denominator 0.

    Args:
        terms: (2, questions) Amounts added to the numerator and to the denominator.
        seed: Seed of the bootstrap.
        resamples: Number of bootstrap resamples.
    """
    numerators, denominators = resample_joint_sums(terms, seed, resamples)
    is_defined = denominators > 0
    return compute_bounds(numerators[is_defined] / denominators[is_defined])


def is_binary(values: NDArray[np.float64]) -> bool:
    """Return whether every value is 0 or 1."""
    return bool(np.isin(values, (0.0, 1.0)).all())


def is_fraction(values: NDArray[np.float64]) -> bool:
    """Return whether every value is from 0 to 1."""
    return bool(((values >= 0) & (values <= 1)).all())


def widen_bounds(
    bounds: tuple[float, float], share: float, terms: NDArray[np.float64]
) -> tuple[float, float]:
    """Extend bootstrap bounds to Wilson's if fewer than ten questions differ from the others.

    Args:
        bounds: Lower and upper bound of the bootstrap.
        share: Value from 0 to 1 to which the bounds belong.
        terms: (values, questions) Values from which the share is computed.
    """
    num_questions = terms.shape[1]
    most_frequent = np.unique(terms, axis=1, return_counts=True)[1].max()
    if num_questions - most_frequent >= MIN_DEVIATING:
        return bounds
    low, high = _compute_wilson_bounds(share, num_questions)
    return min(low, bounds[0]), max(high, bounds[1])


def compute_bounds(statistics: NDArray[np.float64]) -> tuple[float, float]:
    """Compute a 95 % interval from the 2.5 % and 97.5 % quantiles of resampled statistics."""
    low, high = np.quantile(statistics, _BOUND_QUANTILES)
    return float(low), float(high)


def as_vector(values: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
    """Convert values to a vector of floats.

    Raises:
        InputError: If the values are not a non-empty vector, or if any of them is NaN.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or not len(data):
        raise InputError(
            "An interval needs one value for each of at least one question; received an array of "
            f"shape {data.shape}."
        )
    if np.isnan(data).any():
        raise InputError(
            f"The value at index {int(np.isnan(data).argmax())} is NaN. Leave out questions "
            "without a value."
        )
    return data


def _compute_wilson_bounds(share: float, num_trials: int) -> tuple[float, float]:
    """Compute Wilson's score interval of a share. SciPy only accepts whole numbers of successes."""
    squared = NORMAL_QUANTILE**2
    scale = 1 + squared / num_trials
    center = (share + squared / (2 * num_trials)) / scale
    variance = share * (1 - share) / num_trials + squared / (4 * num_trials**2)
    half_width = NORMAL_QUANTILE / scale * math.sqrt(variance)
    # Rounding errors could leave a share of 0 or 1 outside of the interval.
    low, high = min(share, center - half_width), max(share, center + half_width)
    return max(0.0, float(low)), min(1.0, float(high))


def resample_means(data: NDArray[np.float64], seed: int, resamples: int) -> NDArray[np.float64]:
    """Compute the means of bootstrap resamples, drawn in chunks to limit memory.

    For more than 20,000 questions, the means are drawn from the normal distribution that they have
    then. Its error is smaller than the error of so few resamples, and 300 comparisons of 100,000
    questions take a second instead of ten minutes.

    Args:
        data: (questions,) Value of each question.
        seed: Seed of the bootstrap.
        resamples: Number of bootstrap resamples.
    """
    rng = np.random.default_rng(seed)
    if len(data) > _MAX_RESAMPLED:
        return rng.normal(data.mean(), data.std() / math.sqrt(len(data)), resamples)
    chunk_size = max(1, _MAX_CHUNK_VALUES // len(data))
    means = [
        data[rng.integers(0, len(data), (min(chunk_size, resamples - start), len(data)))].mean(
            axis=1
        )
        for start in range(0, resamples, chunk_size)
    ]
    return np.concatenate(means)


def resample_joint_sums(
    terms: NDArray[np.float64], seed: int, resamples: int = 2000
) -> NDArray[np.float64]:
    """Compute the sums of two values per question in bootstrap resamples of the questions.

    Questions with the same pair of values are drawn together, because there are few different pairs
    of counts. For more than 20,000 different pairs, the sums are drawn from their normal
    distribution, as in `resample_means`.

    Args:
        terms: (2, questions) Values of each question.
        seed: Seed of the bootstrap.
        resamples: Number of bootstrap resamples.

    Returns:
        (2, resamples) Sums of both values in each resample. Sums of whole numbers are exact.
    """
    rng = np.random.default_rng(seed)
    num_questions = terms.shape[1]
    pairs, counts = np.unique(terms, axis=1, return_counts=True)
    if len(counts) > _MAX_RESAMPLED:
        covariance = np.cov(terms, bias=True) * num_questions
        draws: NDArray[np.float64] = rng.multivariate_normal(
            terms.sum(axis=1), covariance, resamples, method="eigh"
        ).T
        return draws
    chunk_size = max(1, _MAX_CHUNK_VALUES // len(counts))
    chunks = [
        pairs
        @ rng.multinomial(
            num_questions, counts / num_questions, min(chunk_size, resamples - start)
        ).T
        for start in range(0, resamples, chunk_size)
    ]
    sums: NDArray[np.float64] = np.concatenate(chunks, axis=1)
    return sums
