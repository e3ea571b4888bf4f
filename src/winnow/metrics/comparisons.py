"""Paired comparisons of two cells on the same questions: difference, interval, test and power.

A cell is one setting of a sweep, with one prediction per question. A question is discordant if only
one of two cells answers it correctly.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from winnow.errors import InputError
from winnow.metrics.intervals import (
    MIN_DEVIATING,
    MIN_DISCORDANT,
    NORMAL_QUANTILE,
    SIGNIFICANCE_LEVEL,
    UNDEFINED,
    as_vector,
    compute_bounds,
    is_binary,
    is_fraction,
    resample_means,
    widen_bounds,
)

Floats = NDArray[np.float64]
_EXPECTED_DISCORDANT = 7.906
"""Mean of a Poisson distribution whose values reach `MIN_DISCORDANT` with 80 % probability."""
_POWER_QUANTILES = NORMAL_QUANTILE + 0.841621
"""Sum of the normal quantiles of a two-sided 5 % test and of 80 % power."""
_NUM_PERMUTATIONS = 9999
_MAX_PERMUTED = 2000
"""Number of non-zero differences above which the permutation test uses a normal approximation."""
_MAX_NOISE = 1e-9
"""Largest difference between values that are equal up to rounding."""
_NUM_BETA_QUANTILES = 400
"""Number of quantiles by which a Beta distribution is represented."""


class Unit(NamedTuple):
    """The unit in which values are printed, by default percentage points.

    Attributes:
        scale: Factor that converts values to the unit.
        digits: Number of decimals.
    """

    scale: float = 100.0
    digits: int = 1

    def format_signed(self, value: float) -> str:
        """Format a difference, with its sign."""
        return f"{self.scale * value:+.{self.digits}f}"


POINTS = Unit()
"""Percentage points."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of a paired comparison of two cells.

    Attributes:
        difference: Mean of the first cell minus mean of the second.
        low: Lower bound of its 95 % interval.
        high: Upper bound of its 95 % interval.
        p_value: Two-sided p-value: McNemar's exact test if all values are 0 or 1, else a paired
            permutation test.
        n: Number of questions.
        detectable: Smallest difference that a test on these questions detects with 80 % power, or
            NaN if there is none.
    """

    difference: float
    low: float
    high: float
    p_value: float
    n: int
    detectable: float

    @property
    def p_text(self) -> str:
        """Return the p-value with three decimals, or "<0.001"."""
        return format_p(self.p_value)

    def format_difference(self, unit: Unit = POINTS) -> str:
        """Format the difference and its interval in a unit."""
        low, high = unit.format_signed(self.low), unit.format_signed(self.high)
        return f"{unit.format_signed(self.difference)} [{low}, {high}]"

    def format_detectable(self, unit: Unit = POINTS) -> str:
        """Format the least detectable difference in a unit."""
        is_undefined = math.isnan(self.detectable)
        return UNDEFINED if is_undefined else unit.format_signed(self.detectable).lstrip("+")


def format_p(p_value: float) -> str:
    """Format a p-value with three decimals, four if it is just below 0.05, or as "<0.001"."""
    if p_value < 0.001:
        return "<0.001"
    if 0.0495 <= p_value < SIGNIFICANCE_LEVEL:
        return f"{min(p_value, SIGNIFICANCE_LEVEL - 0.0001):.4f}"
    return f"{p_value:.3f}"


def compare(
    first: ArrayLike, second: ArrayLike, *, seed: int = 0, resamples: int = 2000
) -> Comparison:
    """Compare two cells question by question.

    If all values are 0 or 1, the interval contains 0 exactly if the p-value of McNemar's exact test
    is at least 0.05. Otherwise, the interval is a paired bootstrap interval. Near p = 0.05 it may
    disagree with the permutation test; the test is then more reliable. If all values are from 0 to
    1 and fewer than ten questions differ, a bootstrap interval is too narrow. It is then extended
    by the interval that the differences would have if each were 1 or -1. If fewer than ten deviate
    from another difference that most have, it is extended by Wilson's.

    Args:
        first: (questions,) Values of the first cell.
        second: (questions,) Values of the second cell, in the same order of questions.
        seed: Seed of the bootstrap and of the permutations.
        resamples: Number of bootstrap resamples.
    """
    first_values, second_values = as_vector(first), as_vector(second)
    if len(first_values) != len(second_values):
        raise InputError(
            "A paired comparison needs the same questions in both cells; received "
            f"{len(first_values)} values of the first cell and {len(second_values)} of the "
            "second."
        )
    differences = first_values - second_values
    detectable = compute_detectable_difference(differences)
    if is_binary(first_values) and is_binary(second_values):
        gained, lost = int((differences > 0).sum()), int((differences < 0).sum())
        low, high = compute_paired_share_bounds(gained, lost, len(differences))
        p_value = mcnemar_test(gained, lost)
    else:
        bounds = compute_bounds(resample_means(differences, seed, resamples))
        if is_fraction(first_values) and is_fraction(second_values):
            bounds = _widen_bounds(bounds, differences)
        low, high = bounds
        p_value = permutation_test(differences, seed=seed)
    return Comparison(float(differences.mean()), low, high, p_value, len(differences), detectable)


def _widen_bounds(
    bounds: tuple[float, float], differences: NDArray[np.float64]
) -> tuple[float, float]:
    """Extend the bootstrap bounds of a mean difference of values from 0 to 1 if fewer than ten
    questions deviate from the difference that most have.
    """
    low, high = bounds
    if np.count_nonzero(differences) < MIN_DEVIATING:
        signs = compute_paired_share_bounds(
            int((differences > 0).sum()), int((differences < 0).sum()), len(differences)
        )
        return min(low, signs[0]), max(high, signs[1])
    shares = (differences + 1) / 2
    low, high = widen_bounds(
        ((low + 1) / 2, (high + 1) / 2), float(shares.mean()), shares[np.newaxis]
    )
    return 2 * low - 1, 2 * high - 1


def mcnemar_test(gained: int, lost: int) -> float:
    """Compute McNemar's exact two-sided p-value, 1,000 times faster than SciPy's `binomtest`.

    Args:
        gained: Number of questions that only the first cell answers correctly.
        lost: Number of questions that only the second cell answers correctly.
    """
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(gained, lost), gained + lost, 0.5)))


def permutation_test(differences: ArrayLike, *, seed: int = 0) -> float:
    """Compute the two-sided p-value of a paired permutation test with random sign flips.

    For more than 2,000 non-zero differences, the permuted mean is assumed to be normally
    distributed. The error of this approximation is smaller than the error of drawing 9,999
    permutations. For fewer, a p-value is at most Hoeffding's bound for random signs: among the
    pairs of many cells, the smallest p-value of 9,999 permutations would not be significant. Signs
    are drawn as bits and multiplied as matrices, 80 times faster than SciPy's `permutation_test`,
    which serves the exact test of few differences.

    Args:
        differences: (questions,) Difference between the two cells on each question.
        seed: Seed of the permutations.
    """
    from scipy.stats import norm

    data = as_vector(differences)
    nonzero = data[data != 0]
    if len(nonzero) < 2:
        return 1.0
    if len(nonzero) > _MAX_PERMUTED:
        z_score = abs(nonzero.sum()) / math.sqrt(float((nonzero**2).sum()))
        return float(2 * norm.sf(z_score))
    z_score = nonzero.sum() / math.sqrt(float((nonzero**2).sum()))
    p_value = (
        _permute_all(nonzero)
        if 2 ** len(nonzero) <= _NUM_PERMUTATIONS
        else _permute_randomly(nonzero, np.random.default_rng(seed))
    )
    return min(p_value, 2 * math.exp(-(z_score**2) / 2))


def _permute_all(values: NDArray[np.float64]) -> float:
    """Return the share of all assignments of signs whose sum is at least as far from 0."""
    from scipy.stats import permutation_test as scipy_permutation_test

    test = scipy_permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=_NUM_PERMUTATIONS
    )
    return float(test.pvalue)


def _permute_randomly(values: NDArray[np.float64], rng: np.random.Generator) -> float:
    """Return the share of random assignments of signs, and of the observed one, whose sum is at
    least as far from 0.
    """
    total, num_bytes = float(values.sum()), (len(values) + 7) // 8
    least = abs(total) * (1 - 1e-12)  # sums of the same values differ in their rounding
    num_extreme, batch = 0, 1111
    for _ in range(_NUM_PERMUTATIONS // batch):
        bytes_ = np.frombuffer(rng.bytes(batch * num_bytes), np.uint8).reshape(batch, num_bytes)
        is_positive = np.unpackbits(bytes_, axis=1, count=len(values))
        sums = 2 * (is_positive.astype(np.float64) @ values) - total
        num_extreme += int(np.count_nonzero(np.abs(sums) >= least))
    return (num_extreme + 1) / (_NUM_PERMUTATIONS + 1)


def adjust_p_values(p_values: Sequence[float]) -> list[float]:
    """Return a family of p-values, adjusted by Holm's step-down procedure, in the given order.

    SciPy only provides procedures that control the false discovery rate.
    """
    adjusted_p_values = [1.0] * len(p_values)
    running_maximum = 0.0
    ascending = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for rank, index in enumerate(ascending):
        corrected_p_value = min(1.0, (len(p_values) - rank) * p_values[index])
        running_maximum = max(running_maximum, corrected_p_value)
        adjusted_p_values[index] = running_maximum
    return adjusted_p_values


def compute_p_value(first: ArrayLike, second: ArrayLike, *, seed: int = 0) -> float:
    """Compute the p-value of `compare` alone, without its interval."""
    first_values, second_values = as_vector(first), as_vector(second)
    differences = first_values - second_values
    if is_binary(first_values) and is_binary(second_values):
        return mcnemar_test(int((differences > 0).sum()), int((differences < 0).sum()))
    return permutation_test(differences, seed=seed)


def compute_detectable_difference(differences: ArrayLike) -> float:
    """Compute the smallest mean difference that a paired test detects (80 % power, 5 % level).

    The questions are assumed to keep their spread: the share of discordant questions if the values
    of both cells are 0 or 1, otherwise the standard deviation of the differences. For values of 0
    or 1, the exact test has at least 76 % power, and more for fewer than 100 questions. The result
    is NaN if no test can detect a difference, or if the spread says nothing about it: with fewer
    than six questions or, for other values, with fewer than six non-zero differences or equal
    differences on all questions.

    Args:
        differences: (questions,) Observed difference between the two cells on each question.
    """
    data = as_vector(differences)
    is_ternary = has_ternary_values(data)
    if len(data) < MIN_DISCORDANT:
        return math.nan
    if not is_ternary and (np.count_nonzero(data) < MIN_DISCORDANT or np.ptp(data) <= _MAX_NOISE):
        return math.nan
    normal_difference = _POWER_QUANTILES * math.sqrt(_compute_spread(data) / len(data))
    if not is_ternary:
        return normal_difference
    exact_difference = _EXPECTED_DISCORDANT / len(data)
    return min(1.0, max(normal_difference, exact_difference))


def compute_questions_needed(differences: ArrayLike, effect: float) -> int:
    """Compute how many questions a paired test needs to detect `effect` (80 % power, 5 % level).

    Args:
        differences: (questions,) Observed differences. Further questions are assumed to have the
            same spread.
        effect: Mean difference to detect. It must not be 0.
    """
    data = as_vector(differences)
    spread = _compute_spread(data)
    if not has_ternary_values(data):
        return max(MIN_DISCORDANT, math.ceil(_POWER_QUANTILES**2 * spread / effect**2))
    needed_by_normal = _POWER_QUANTILES**2 * spread / effect**2
    needed_by_exact = _EXPECTED_DISCORDANT / abs(effect)
    return math.ceil(max(needed_by_normal, needed_by_exact))


def _compute_spread(data: Floats) -> float:
    """Compute the share of discordant questions for differences of 0s and 1s, else the variance."""
    if has_ternary_values(data):
        return float((data**2).mean())
    return float(data.var(ddof=1)) if len(data) > 1 else 0.0


@lru_cache(maxsize=10_000)
def compute_paired_share_bounds(gained: int, lost: int, num_questions: int) -> tuple[float, float]:
    """Compute a 95 % interval of a paired share difference that agrees with McNemar's exact test.

    The difference is the share of discordant questions times (2 t - 1), where t is the share of the
    discordant questions that the first cell answers correctly. The interval combines the exact
    confidence distributions of both factors (Fay and Lumbard, "Confidence intervals for difference
    in proportions for matched pairs compatible with exact McNemar's or sign tests", 2021). Since
    the first factor is positive, 0 is within the interval exactly if the test of t = 0.5 does not
    reject. SciPy does not provide this interval.

    Args:
        gained: Number of questions that only the first cell answers correctly.
        lost: Number of questions that only the second cell answers correctly.
        num_questions: Number of all questions.
    """
    low = -_compute_upper_bound(lost, gained, num_questions)
    high = _compute_upper_bound(gained, lost, num_questions)
    if (
        mcnemar_test(gained, lost) >= SIGNIFICANCE_LEVEL
    ):  # the bounds are approximate and might exclude 0
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high


def _compute_upper_bound(gained: int, lost: int, num_questions: int) -> float:
    """Compute the 97.5 % quantile of the upper confidence distribution of the difference."""
    num_discordant = gained + lost
    num_concordant = num_questions - num_discordant
    advantage = 2 * _compute_beta_quantiles(gained + 1, lost) - 1
    shares = np.where(
        advantage[:, None] > 0,
        _compute_beta_quantiles(num_discordant + 1, num_concordant),
        _compute_beta_quantiles(num_discordant, num_concordant + 1),
    )
    return float(np.quantile(advantage[:, None] * shares, 1 - SIGNIFICANCE_LEVEL / 2))


def _compute_beta_quantiles(a: int, b: int) -> Floats:
    """Compute evenly spaced quantiles of a Beta distribution: all 0 if a is 0, all 1 if b is 0."""
    from scipy.special import (
        betaincinv,
    )  # scipy.stats has the same quantiles, and takes a second to import

    if not a or not b:
        return np.full(_NUM_BETA_QUANTILES, 0.0 if not a else 1.0)
    levels = (np.arange(_NUM_BETA_QUANTILES) + 0.5) / _NUM_BETA_QUANTILES
    quantiles: Floats = betaincinv(a, b, levels)
    return quantiles


def has_ternary_values(data: Floats) -> bool:
    """Return whether the values are differences of 0s and 1s."""
    return bool(np.isin(data, (-1.0, 0.0, 1.0)).all())
