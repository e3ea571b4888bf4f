"""Power of paired comparisons with fewer or more questions, by resampling two cells' questions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from winnow.errors import InputError
from winnow.metrics.comparisons import has_ternary_values
from winnow.metrics.intervals import MIN_DISCORDANT, NORMAL_QUANTILE, SIGNIFICANCE_LEVEL, as_vector

_MOST_VALUES = 5_000_000
"""Number of values that are drawn at once."""


@dataclass(frozen=True, slots=True)
class PowerPoint:
    """What comparisons with n questions would show, if these are drawn from the questions of two
    cells.

    Attributes:
        n: Number of questions.
        same_order: Share of draws in which the cell is better that is better on all questions, or
            the first one if neither is. A tie counts half.
        significant: Share of draws in which a paired test at the 5 % level finds that it is better.
        low: Lower bound of the 95 % prediction interval for the difference over n other questions.
        high: Its upper bound.
    """

    n: int
    same_order: float
    significant: float
    low: float
    high: float


def compute_power(
    differences: ArrayLike, sizes: Sequence[int], *, seed: int = 0, resamples: int = 2000
) -> list[PowerPoint]:
    """Compute what comparisons with other numbers of questions would show.

    The questions are drawn with replacement, so that n may exceed their number. If all values are 0
    or 1, the test is McNemar's exact test; otherwise it is nearly the permutation test. The result
    rests on the observed difference: where that is larger than the true one, as it is on average
    for differences that were selected as large, so is the power.

    Args:
        differences: (questions,) Difference between the two cells on each question, not all 0.
        sizes: Numbers of questions.
        seed: Seed of the draws.
        resamples: Number of draws for each size.
    """
    data = as_vector(differences)
    if not data.any():
        raise InputError(
            "Power needs at least one question on which the cells differ; received none."
        )
    rng = np.random.default_rng(seed)
    sign = np.sign(data.mean())
    draw = _draw_ternary if has_ternary_values(data) else _draw_means
    # The questions at hand are a draw themselves, so that a prediction adds their own error to that
    # of n others.
    own_errors = draw(data, len(data), np.random.default_rng([seed, 1]), resamples)[0] - data.mean()
    points = []
    for n in sizes:
        means, is_significant = draw(data, n, rng, resamples)
        agreement = np.sign(means) * (sign or 1.0)
        same_order = float(((agreement > 0) + 0.5 * (agreement == 0)).mean())
        low, high = np.quantile(
            means + own_errors, [SIGNIFICANCE_LEVEL / 2, 1 - SIGNIFICANCE_LEVEL / 2]
        ).tolist()
        points.append(
            PowerPoint(n, same_order, float((is_significant & (agreement > 0)).mean()), low, high)
        )
    return points


Draws = tuple[NDArray[np.float64], NDArray[np.bool_]]
"""Mean difference of each draw, and whether it is significant."""


def _draw_ternary(
    data: NDArray[np.float64], n: int, rng: np.random.Generator, resamples: int
) -> Draws:
    """Draw the numbers of questions won and lost, which are all that McNemar's test needs."""
    from scipy.stats import binom

    won, lost = float((data > 0).mean()), float((data < 0).mean())
    counts = rng.multinomial(n, [won, lost, max(0.0, 1.0 - won - lost)], size=resamples)
    gained, missed = counts[:, 0], counts[:, 1]
    p_values = np.minimum(1.0, 2.0 * binom.cdf(np.minimum(gained, missed), gained + missed, 0.5))
    return (gained - missed) / n, p_values < SIGNIFICANCE_LEVEL


def _draw_means(
    data: NDArray[np.float64], n: int, rng: np.random.Generator, resamples: int
) -> Draws:
    """Draw questions, and test their mean difference by the normal approximation of the permutation
    test, which cannot reject with fewer than `MIN_DISCORDANT` differences.
    """
    means, is_significant = [], []
    block = max(1, _MOST_VALUES // n)
    for start in range(0, resamples, block):
        values = rng.choice(data, size=(min(block, resamples - start), n))
        sums, squares = values.sum(axis=1), (values**2).sum(axis=1)
        means.append(sums / n)
        counts = np.count_nonzero(values, axis=1)
        is_one_sign = np.abs(np.sign(values).sum(axis=1)) == counts
        is_significant.append(
            ((np.abs(sums) > NORMAL_QUANTILE * np.sqrt(squares)) | is_one_sign)
            & (counts >= MIN_DISCORDANT)
        )
    return np.concatenate(means), np.concatenate(is_significant)


def find_size(points: Sequence[PowerPoint], measure: str, share: float) -> int | None:
    """Return the smallest size from which a measure stays at or above a share, or None without one.

    Args:
        points: Points by ascending size.
        measure: "same_order" or "significant".
        share: Share to reach.
    """
    size = None
    for point in reversed(points):
        if getattr(point, measure) < share:
            break
        size = point.n
    return size
