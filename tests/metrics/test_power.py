"""Power: shares of draws against values that follow from the binomial distribution."""

import math

import numpy as np
import pytest

from winnow.errors import InputError
from winnow.metrics.comparisons import permutation_test
from winnow.metrics.power import PowerPoint, compute_power, find_size


def test_mcnemars_test_needs_six_questions() -> None:
    """If every question is won, 5 questions give p = 2 / 32 and 6 give p = 2 / 64."""
    five, six = compute_power([1, 1, 1], [5, 6])
    assert (five.same_order, five.significant) == (1.0, 0.0)
    assert (six.same_order, six.significant) == (1.0, 1.0)


def test_shares_are_those_of_the_distribution() -> None:
    """Half of the questions are won and the others equal: 6 questions are all won in 1/64 of draws,
    and none is in 1/64.
    """
    (point,) = compute_power([1, 0], [6], resamples=200_000)
    assert point.significant == pytest.approx(1 / 64, abs=0.002)
    assert point.same_order == pytest.approx(1 - 1 / 128, abs=0.002)


@pytest.mark.parametrize("n", [50, 150, 1000])
def test_the_difference_of_other_questions_is_in_its_prediction_interval(n: int) -> None:
    """In 95 of 100 cases, of 150 questions of which 8 in 100 are won and 5 lost, with n
    other ones.
    """
    rng, inside = np.random.default_rng(0), 0
    for _ in range(200):
        here, there = (
            rng.choice([1.0, -1.0, 0.0], size, p=[0.08, 0.05, 0.87]) for size in (150, n)
        )
        (point,) = compute_power(here, [n], resamples=1000)
        inside += point.low <= there.mean() <= point.high
    assert 0.91 <= inside / 200 <= 0.99


def test_other_values_are_tested_by_their_mean() -> None:
    """If k of 100 values are 1.05 and the others -0.95, 1.96 standard errors need k >= 58, and a
    positive mean k >= 48.
    """
    (point,) = compute_power([1.05, -0.95] * 50, [100], resamples=40_000)
    assert point.significant == pytest.approx(_sum_binomial(58), abs=0.01)
    assert point.same_order == pytest.approx(_sum_binomial(48), abs=0.01)


def _sum_binomial(least: int) -> float:
    """The probability of at least so many of 100 fair coins."""
    return sum(math.comb(100, k) for k in range(least, 101)) / 2**100


def test_power_of_rare_differences_is_that_of_the_permutation_test() -> None:
    """Of questions of which 3 in 100 gain: with six differences or fewer, no test can reject."""
    data = np.zeros(300)
    data[:9] = np.linspace(0.4, 0.67, 9)
    rng = np.random.default_rng(1)
    for point in compute_power(data, [100, 200], resamples=2000):
        rejected = [permutation_test(rng.choice(data, point.n)) < 0.05 for _ in range(200)]
        assert point.significant == pytest.approx(np.mean(rejected), abs=0.1)


def test_the_order_may_be_the_other_way() -> None:
    """A cell that is worse is as certain as one that is better, and constant differences of any
    size are.
    """
    better, worse = compute_power([1, 1, 0, -1], [200]), compute_power([-1, -1, 0, 1], [200])
    assert better[0].significant == pytest.approx(worse[0].significant, abs=0.05)
    assert better[0].significant > 0.9
    few, many = compute_power([-0.25, -0.25], [5, 6])
    assert (few.significant, many.significant) == (0.0, 1.0)


def test_only_the_observed_direction_counts() -> None:
    """Of 100 questions of which each is won or lost by chance, 61 or more are won in 1.8 % of
    draws, and lost in as many.
    """
    (point,) = compute_power([1, -1], [100], resamples=40_000)
    assert point.significant == pytest.approx(_sum_binomial(61), abs=0.004)


def test_draws_repeat_by_seed() -> None:
    """Equal seeds give equal shares, others do not."""
    first, again, other = (
        compute_power([1, 0, 0, -1, 1], [50], seed=seed, resamples=500) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_equal_cells_have_no_power() -> None:
    """Nothing can be drawn from cells that never differ."""
    with pytest.raises(InputError, match="at least one question on which the cells differ"):
        compute_power([0.0, 0.0], [50])


def test_a_size_holds_for_all_larger_ones() -> None:
    """A share that falls again does not count."""
    points = [
        PowerPoint(n, share, 0.0, 0.0, 0.0)
        for n, share in ((50, 0.96), (100, 0.94), (200, 0.95), (500, 0.99))
    ]
    assert find_size(points, "same_order", 0.95) == 200
    assert find_size(points, "significant", 0.8) is None
    assert find_size(points, "same_order", 0.9) == 50
