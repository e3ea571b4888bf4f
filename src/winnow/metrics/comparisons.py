"""Paired comparisons of two cells on the same questions: difference, interval, test and power."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from winnow.errors import InputError
from winnow.metrics.intervals import UNDEFINED, as_vector, bounds, is_binary, resampled_means

Floats = NDArray[np.float64]
_LEAST_DISCORDANT = 6
"""The exact test cannot reach p < 0.05 with fewer questions that only one of two cells answers correctly: 2 / 2**5 > 0.05."""
_EXPECTED_DISCORDANT = 7.906
"""Mean of a Poisson count that is at least `_LEAST_DISCORDANT` with a probability of 80 %."""
_POWER = 1.959964 + 0.841621
"""Quantiles of the normal distribution for a two-sided 5 % test and for 80 % power."""
_LEVEL = 0.05
_PERMUTATIONS = 9999
_LARGE = 2000
_GRID = 400
"""Number of quantiles by which a Beta distribution is represented."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of a paired comparison of two cells.

    Attributes:
        difference: Mean difference, first minus second.
        low: Lower bound of its 95 % interval.
        high: Upper bound of its 95 % interval.
        p_value: Two-sided p-value: McNemar's exact test if all values are 0 or 1, else a paired permutation test.
        n: Number of questions.
        detectable: Smallest difference that a test on these questions detects with 80 % power; NaN if there is none.

    """

    difference: float
    low: float
    high: float
    p_value: float
    n: int
    detectable: float

    @property
    def p_text(self) -> str:
        """Return the p-value as text."""
        return format_p(self.p_value)

    def signed(self, scale: float = 100.0) -> str:
        """Format the difference with its interval, in percentage points by default."""
        return f"{scale * self.difference:+.1f} [{scale * self.low:+.1f}, {scale * self.high:+.1f}]"

    def detectable_text(self, scale: float = 100.0) -> str:
        """Format the smallest detectable difference, in percentage points by default."""
        return UNDEFINED if math.isnan(self.detectable) else f"{scale * self.detectable:.1f}"


def format_p(p_value: float) -> str:
    """Format a p-value with three decimals, or as "<0.001"."""
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def compare(first: ArrayLike, second: ArrayLike, *, seed: int = 0, resamples: int = 2000) -> Comparison:
    """Compare two cells question by question.

    If all values are 0 or 1, the interval contains 0 exactly if McNemar's exact p-value is at least 0.05. Otherwise, it is a
    paired bootstrap, and near p = 0.05 interval and permutation test may disagree; the test is the one to believe then.

    Args:
        first: (questions,) Values of the first cell.
        second: (questions,) Values of the second cell, in the same order of questions.
        seed: Seed of bootstrap and permutations.
        resamples: Number of bootstrap resamples.

    """
    first_values, second_values = as_vector(first), as_vector(second)
    if len(first_values) != len(second_values):
        raise InputError(
            f"A paired comparison needs the same questions; received {len(first_values)} and {len(second_values)} rows."
        )
    differences = first_values - second_values
    detectable = detectable_difference(differences)
    if is_binary(first_values) and is_binary(second_values):
        gained, lost = int((differences > 0).sum()), int((differences < 0).sum())
        low, high = paired_share_bounds(gained, lost, len(differences))
        p_value = mcnemar(gained, lost)
    else:
        low, high = bounds(resampled_means(differences, seed, resamples))
        p_value = permutation_test(differences, seed=seed)
    return Comparison(float(differences.mean()), low, high, p_value, len(differences), detectable)


def mcnemar(gained: int, lost: int) -> float:
    """Compute the exact two-sided p-value of McNemar's test.

    Args:
        gained: Number of questions that only the first cell answers correctly.
        lost: Number of questions that only the second cell answers correctly.

    """
    from scipy.stats import binomtest

    return float(binomtest(gained, gained + lost, 0.5).pvalue) if gained + lost else 1.0


def permutation_test(differences: ArrayLike, *, seed: int = 0) -> float:
    """Compute the two-sided p-value of the paired permutation test, which flips the signs of the differences at random.

    Above 2,000 questions that differ, the distribution of the permuted mean is taken as normal. Its error is then smaller
    than that of drawing 9,999 permutations.
    """
    from scipy.stats import norm, permutation_test

    data = as_vector(differences)
    data = data[data != 0]
    if len(data) < 2:
        return 1.0
    if len(data) > _LARGE:
        return float(2 * norm.sf(abs(data.sum()) / math.sqrt(float((data**2).sum()))))
    test = permutation_test(
        (data,), np.mean, permutation_type="samples", n_resamples=_PERMUTATIONS, rng=np.random.default_rng(seed), batch=1000
    )
    return float(test.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for the number of tests by Holm's step-down procedure, in their order.

    SciPy only has procedures for the false discovery rate.
    """
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def detectable_difference(differences: ArrayLike) -> float:
    """Compute the smallest mean difference that a paired test detects with 80 % power at the 5 % level.

    It assumes that the questions keep their spread: for right and wrong answers, the share that only one cell answers
    correctly; for other values, the standard deviation of the differences. For the former, the normal approximation is bounded
    from below by what the exact test needs. It is NaN if no test can detect anything: with fewer than six questions or, of
    other values, fewer than six that differ.
    """
    data = as_vector(differences)
    is_ternary = _is_ternary(data)
    if len(data) < _LEAST_DISCORDANT or (not is_ternary and np.count_nonzero(data) < _LEAST_DISCORDANT):
        return math.nan
    normal = _POWER * math.sqrt(_spread(data) / len(data))
    return min(1.0, max(normal, _EXPECTED_DISCORDANT / len(data))) if is_ternary else normal


def questions_needed(differences: ArrayLike, effect: float) -> int:
    """Compute how many questions a paired test needs to detect a mean difference with 80 % power at the 5 % level.

    Args:
        differences: (questions,) Observed differences, whose spread is assumed.
        effect: Difference to detect, not 0.

    """
    data = as_vector(differences)
    if not _is_ternary(data):
        return max(_LEAST_DISCORDANT, math.ceil(_POWER**2 * _spread(data) / effect**2))
    return math.ceil(max(_POWER**2 * max(_spread(data), abs(effect)) / effect**2, _EXPECTED_DISCORDANT / abs(effect)))


def _spread(data: Floats) -> float:
    """Return the share of discordant questions if the values are differences of 0s and 1s, else their variance."""
    if _is_ternary(data):
        return float((data**2).mean())
    return float(data.var(ddof=1)) if len(data) > 1 else 0.0


@lru_cache(maxsize=10_000)
def paired_share_bounds(gained: int, lost: int, n: int) -> tuple[float, float]:
    """Compute a 95 % interval of a difference of paired shares that agrees with McNemar's exact test.

    The difference is the share of discordant questions times (2 t - 1), where t is the share of these that the first cell
    wins. The interval combines the exact confidence distributions of both factors (Fay and Lumbard, "Confidence intervals
    for difference in proportions for matched pairs compatible with exact McNemar's or sign tests", 2021). Since the first
    factor is positive, 0 is within the interval exactly if the test of t = 0.5 does not reject. SciPy has no such interval.

    Args:
        gained: Number of questions that only the first cell answers correctly.
        lost: Number of questions that only the second cell answers correctly.
        n: Number of questions.

    """
    low, high = -_upper_bound(lost, gained, n), _upper_bound(gained, lost, n)
    if mcnemar(gained, lost) >= _LEVEL:  # the quantiles are those of a grid
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high


def _upper_bound(gained: int, lost: int, n: int) -> float:
    """Return the 97.5 % quantile of the product's upper confidence distribution."""
    discordant = gained + lost
    advantage = 2 * _beta_quantiles(gained + 1, lost) - 1
    shares = np.where(
        advantage[:, None] > 0,
        _beta_quantiles(discordant + 1, n - discordant),
        _beta_quantiles(discordant, n - discordant + 1),
    )
    return float(np.quantile(advantage[:, None] * shares, 1 - _LEVEL / 2))


def _beta_quantiles(a: int, b: int) -> Floats:
    """Return evenly spaced quantiles of a Beta distribution; with a = 0 it is the point 0, with b = 0 the point 1."""
    from scipy.stats import beta

    if not a or not b:
        return np.full(_GRID, 0.0 if not a else 1.0)
    quantiles: Floats = beta.ppf((np.arange(_GRID) + 0.5) / _GRID, a, b)
    return quantiles


def _is_ternary(data: Floats) -> bool:
    """Return whether the values are differences of 0s and 1s."""
    return bool(np.isin(data, (-1.0, 0.0, 1.0)).all())
