"""Paired comparisons against numbers worked out by hand, and their coverage."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.stats import permutation_test as scipy_permutation_test

from winnow.errors import InputError
from winnow.metrics.comparisons import (
    Unit,
    adjust_p_values,
    compare,
    compute_detectable_difference,
    compute_p_value,
    compute_paired_share_bounds,
    compute_questions_needed,
    format_p,
    mcnemar_test,
    permutation_test,
)
from winnow.metrics.intervals import compute_bounds, resample_means


def test_mcnemar_by_hand() -> None:
    """Five questions that only the first gets right: p = 2 / 2**5; 3 against 1: 2 * 5 / 2**4."""
    assert mcnemar_test(5, 0) == pytest.approx(2 / 32)
    assert mcnemar_test(1, 3) == pytest.approx(10 / 16)
    assert mcnemar_test(0, 0) == mcnemar_test(1, 1) == 1.0
    for gained, lost in ((0, 1), (3, 9), (40, 41), (100, 160), (2500, 2300), (0, 300)):
        assert mcnemar_test(gained, lost) == pytest.approx(
            stats.binomtest(gained, gained + lost, 0.5).pvalue, rel=1e-9
        )


def test_compare_is_paired() -> None:
    """The difference is question by question; different lengths are refused."""
    result = compare([1.0, 1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0])
    assert (result.difference, result.n, result.p_text) == (0.25, 4, "1.000")
    assert result.format_difference().startswith("+25.0 [-")
    shown = replace(result, difference=0.125, low=-0.0625, high=0.5, detectable=0.375)
    assert (shown.format_difference(), shown.format_detectable()) == (
        "+12.5 [-6.2, +50.0]",
        "37.5",
    )
    assert (shown.format_difference(Unit(8.0)), shown.format_detectable(Unit(8.0))) == (
        "+1.0 [-0.5, +4.0]",
        "3.0",
    )
    assert shown.format_difference(Unit(1.0, 3)) == "+0.125 [-0.062, +0.500]"
    with pytest.raises(InputError, match="same questions"):
        compare([1.0], [1.0, 0.0])


def test_interval_and_test_of_shares_agree() -> None:
    """Four of 60 that only the first gets right: p = .125, so that 0 is within the interval (a
    bootstrap says +1.7, +13.3).
    """
    first, second = [1.0] * 4 + [0.0] * 56, [0.0] * 60
    result = compare(first, second)
    assert (result.p_value, result.difference) == (0.125, pytest.approx(4 / 60))
    assert result.low < 0 < result.high
    assert compare(second, first).low == -result.high


@pytest.mark.parametrize("n", [15, 40])
def test_zero_is_within_the_interval_exactly_if_the_test_does_not_reject(n: int) -> None:
    """For every outcome of so many questions."""
    for gained in range(n + 1):
        for lost in range(n + 1 - gained):
            low, high = compute_paired_share_bounds(gained, lost, n)
            assert -1 <= low <= (gained - lost) / n <= high <= 1
            assert (low <= 0 <= high) == (mcnemar_test(gained, lost) >= 0.05)


@pytest.mark.parametrize(
    ("n", "gained", "lost"), [(60, 0.07, 0.0), (60, 0.3, 0.1), (150, 0.1, 0.04), (500, 0.08, 0.05)]
)
def test_the_interval_of_paired_shares_covers(n: int, gained: float, lost: float) -> None:
    """At least 95 % of 1,000 samples, and its width is at most 1.4 times that of the normal
    approximation.
    """
    draws = np.random.default_rng(0).multinomial(n, [gained, lost, 1 - gained - lost], 1000)
    bounds = [compute_paired_share_bounds(int(a), int(b), n) for a, b, _ in draws]
    assert np.mean([low <= gained - lost <= high for low, high in bounds]) >= 0.95
    normal = 2 * 1.96 * math.sqrt((gained + lost - (gained - lost) ** 2) / n)
    assert np.mean([high - low for low, high in bounds]) <= 1.4 * normal


@pytest.mark.parametrize(
    ("gained", "lost", "n"), [(4, 0, 60), (9, 3, 40), (0, 7, 20), (30, 25, 300), (6, 6, 12)]
)
def test_the_bounds_are_those_of_drawn_confidence_distributions(
    gained: int, lost: int, n: int
) -> None:
    """Each bound is a quantile of the share of discordant questions times (2 t - 1), both drawn a
    million times.
    """
    rng, discordant = np.random.default_rng(0), gained + lost

    def draw(a: int, b: int) -> np.ndarray:
        return rng.beta(a, b, 10**6) if a and b else np.full(10**6, float(a > 0))

    few, many = draw(discordant, n - discordant + 1), draw(discordant + 1, n - discordant)
    largest, smallest = 2 * draw(gained + 1, lost) - 1, 2 * draw(gained, lost + 1) - 1
    high = np.quantile(np.where(largest > 0, largest * many, largest * few), 0.975)
    low = np.quantile(np.where(smallest < 0, smallest * many, smallest * few), 0.025)
    assert compute_paired_share_bounds(gained, lost, n) == (
        pytest.approx(low, abs=5e-3),
        pytest.approx(high, abs=5e-3),
    )


def test_other_values_have_a_permutation_test() -> None:
    """Five positive differences: p = 2 / 2**5 (every sign equally likely); zeros change nothing;
    equal values give 1.
    """
    assert permutation_test([1.5, 2.0, 3.0, 4.0, 5.0, 0.0]) == pytest.approx(2 / 32)
    assert permutation_test([0.0, 0.0]) == permutation_test([0.0, 0.7]) == 1.0
    result = compare([130.0, 120.0], [1030.0, 1020.0])
    assert (result.difference, result.p_value) == (-900.0, 0.5)


def test_the_permutation_test_of_many_questions_is_nearly_exact() -> None:
    """3,000 differences of ±1 in the ratio 1,560 to 1,440: z = 120 / √3000 = 2.191, p = .0285."""
    assert permutation_test([1.0] * 1560 + [-1.0] * 1440) == pytest.approx(0.0285, abs=1e-3)
    rng = np.random.default_rng(0)
    data = rng.normal(0.04, 1, 1900)
    assert permutation_test(data) == pytest.approx(
        permutation_test(np.concatenate([data, np.zeros(200)])), abs=0.02
    )


def test_the_p_value_of_a_clear_difference_survives_the_correction_for_many_cells() -> None:
    """Ten thousand permutations cannot show less than 0.0002, 300 times which is 0.06."""
    differences = np.random.default_rng(0).uniform(0.2, 0.8, 400)
    assert 300 * permutation_test(differences) < 1e-10
    few = np.full(5, 0.5) + np.arange(5) / 100
    assert permutation_test(few) == pytest.approx(2 / 2**5)


@pytest.mark.parametrize(("n", "share"), [(30, 0.98), (30, 0.95), (60, 0.98), (60, 0.95)])
def test_the_interval_of_nearly_equal_differences_covers(n: int, share: float) -> None:
    """One cell shows both gold passages of nearly every question, the other always one of them."""
    rng, inside = np.random.default_rng(n), 0
    for _ in range(200):
        result = compare(np.where(rng.random(n) < share, 1.0, 0.5), np.full(n, 0.5), resamples=200)
        inside += result.low <= share / 2 <= result.high
    assert inside / 200 >= 0.94


def test_holm_by_hand() -> None:
    """Of .01, .04, .03: 3 * .01, then 2 * .03, then .04 but no less than its predecessor; never
    above 1.
    """
    assert adjust_p_values([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert adjust_p_values([0.9, 0.8]) == [1.0, 1.0]
    assert adjust_p_values([]) == []


def test_power_by_hand() -> None:
    """20 % of 200 questions differ: 2.8016 √(0.2 / 200) = 8.9 points; 1,570 questions show 3.16
    points.
    """
    differences = [1.0] * 24 + [-1.0] * 16 + [0.0] * 160
    assert compute_detectable_difference(differences) == pytest.approx(0.0886, abs=1e-4)
    assert compute_questions_needed(differences, 0.0886) == pytest.approx(200, abs=1)
    assert compute_questions_needed(differences, -0.0443) == pytest.approx(4 * 200, abs=2)


def test_the_exact_test_needs_six_discordant_questions() -> None:
    """Equal cells: 7.9 of n must differ on average; below six questions nothing can be shown."""
    assert compute_detectable_difference([0.0] * 100) == pytest.approx(0.079, abs=1e-3)
    assert compute_detectable_difference([0.0] * 6) == 1.0
    assert math.isnan(compute_detectable_difference([0.0] * 5))
    assert compute_questions_needed([0.0] * 100, 0.05) == 159


def test_the_detectable_difference_is_detected_with_80_percent_power() -> None:
    """Simulated: 150 questions, 15 % of which differ."""
    n, share = 150, 0.15
    effect = compute_detectable_difference([1.0] * 12 + [-1.0] * 11 + [0.0] * 127)
    draws = np.random.default_rng(0).multinomial(
        n, [(share + effect) / 2, (share - effect) / 2, 1 - share], 2000
    )
    power = np.mean([mcnemar_test(int(a), int(b)) < 0.05 for a, b, _ in draws])
    assert 0.70 <= power <= 0.88


def test_the_spread_of_other_values_is_about_their_mean() -> None:
    """Tokens that differ by 600 ± 50: 2.8016 * 50 / √60 = 18.1 are detectable; fewer than six that
    differ show nothing.
    """
    differences = [550.0, 650.0] * 30
    assert compute_detectable_difference(differences) == pytest.approx(18.24, abs=0.1)
    assert compute_questions_needed(differences, 90.5) == 6
    assert compute_questions_needed(differences, 10.0) == pytest.approx(
        2.8016**2 * 2542 / 100, abs=1
    )
    assert math.isnan(compute_detectable_difference([0.5] * 5 + [0.0] * 55))
    assert compare([0.5] + [0.0] * 59, [0.0] * 60).p_value == 1.0


def test_small_p_values_are_not_zero() -> None:
    """Three decimals, or a bound."""
    assert [format_p(p) for p in (0.0004, 0.0156, 0.0498, 0.04999, 0.0502)] == [
        "<0.001",
        "0.016",
        "0.0498",
        "0.0499",
        "0.050",
    ]


def test_few_differences_of_fractions_are_no_certainty() -> None:
    """Values of F1 that are equal on 100 questions have the interval of shares that are; other
    numbers have none.
    """
    values = np.append(np.ones(99), 0.5)
    shares = compare(np.ones(100), np.ones(100))
    result = compare(values, values)
    assert (result.difference, result.low, result.high) == (0.0, shares.low, shares.high)
    few = compare(values, np.ones(100))
    assert few.low < -0.005 < 0 < few.high
    assert (compare(500 * values, 500 * values).low, compare(500 * values, 500 * values).high) == (
        0.0,
        0.0,
    )


@pytest.mark.parametrize("share", [0.02, 0.04, 0.1])
def test_the_interval_of_a_difference_of_fractions_covers(share: float) -> None:
    """Of 60 questions a few gain a half or lose a third."""
    random = np.random.default_rng(0)
    truth = share * (0.6 * 0.5 - 0.4 / 3)
    covered = []
    for _ in range(200):
        changes = np.where(random.random(60) < 0.6, 0.5, -1 / 3) * (random.random(60) < share)
        result = compare(0.5 + changes, np.full(60, 0.5))
        covered.append(result.low <= truth <= result.high)
    assert np.mean(covered) >= 0.94


def test_a_p_value_alone_is_that_of_the_comparison() -> None:
    """McNemar's for right and wrong, the permutation test's otherwise."""
    for first, second in (
        ([1, 1, 1, 0, 1, 1], [0, 0, 0, 1, 0, 0]),
        ([0.5, 1, 0.2, 0.7], [0.1, 0.3, 0.4, 0.2]),
    ):
        assert compute_p_value(first, second, seed=3) == compare(first, second, seed=3).p_value


def test_equal_differences_say_nothing_of_what_is_detectable() -> None:
    """Each question takes 500 tokens less."""
    assert math.isnan(compute_detectable_difference(np.full(20, -500.0)))


def test_the_extension_has_the_side_of_the_differences() -> None:
    """Eight questions of a hundred gain a little: the interval reaches further up than down, and
    contains the bootstrap's.
    """
    first, second = np.full(100, 0.5), np.full(100, 0.5)
    first[:8] += 0.1
    result, swapped = compare(first, second), compare(second, first)
    assert result.high > 0.1 > -result.low
    assert (swapped.low, swapped.high) == (pytest.approx(-result.high), pytest.approx(-result.low))
    bounds = compute_bounds(resample_means(first - second, 0, 2000))
    assert result.low <= bounds[0]
    assert result.high >= bounds[1]


def test_only_fractions_with_few_deviating_questions_are_extended() -> None:
    """Ten that deviate, or values above 1 in either cell, have the bootstrap's interval."""
    half, beyond, ten = (np.full(100, 0.5) for _ in range(3))
    beyond[:8] = 1.5
    ten[:10] += 0.1
    for first, second in ((half, beyond), (beyond, half), (ten, half)):
        result = compare(first, second)
        bounds = compute_bounds(resample_means(first - second, 0, 2000))
        assert (result.low, result.high) == pytest.approx(bounds)


def test_rounding_is_no_spread() -> None:
    """0.9 - 0.6 is not the same in every question, up to the last bit."""
    assert math.isnan(
        compute_detectable_difference(np.full(100, 0.9) - np.append(np.full(99, 0.6), 0.6 + 1e-16))
    )


def test_random_signs_agree_with_scipy_and_count_ties() -> None:
    """Within the error of 9,999 permutations, also where many sums equal the observed one."""
    rng = np.random.default_rng(3)
    for values in (rng.normal(0.2, 1, 80), rng.choice([-0.5, 0.5, 1.0], 60)):
        scipy_p_value = scipy_permutation_test(
            (values,), np.mean, permutation_type="samples", n_resamples=50_000, rng=rng, batch=1000
        ).pvalue
        assert permutation_test(values, seed=1) == pytest.approx(scipy_p_value, abs=0.02)
    assert permutation_test([0.1] * 10 + [-0.1] * 10) == 1.0


def test_the_least_p_value_is_hoeffdings_bound() -> None:
    """It is above 0, and below 1 in 10,000."""
    assert permutation_test([1.0] * 40) == pytest.approx(2 * math.exp(-20), rel=1e-9)
    assert permutation_test([1.0] * 14) == pytest.approx(1e-4, abs=5e-4)
    assert permutation_test([1.0] * 14) >= 1e-4


@pytest.mark.parametrize("number", [14, 15, 16, 40])
def test_random_signs_are_those_of_the_seed(number: int) -> None:
    """Two runs give the same p-value, also for the fewest differences that are not all permuted."""
    values = np.random.default_rng(0).normal(0.3, 1, number)
    first, again, other = (permutation_test(values, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("number", range(2, 14))
def test_few_differences_are_permuted_exactly(number: int) -> None:
    """Up to thirteen, of which there are 8,192 assignments of signs."""
    import itertools

    values = np.random.default_rng(number).normal(0.3, 1, number)
    sums = [abs(np.dot(signs, values)) for signs in itertools.product((1, -1), repeat=number)]
    share = np.mean(np.array(sums) >= abs(values.sum()) - 1e-9)
    bound = 2 * math.exp(-(values.sum() ** 2 / (values**2).sum()) / 2)
    assert permutation_test(values) == pytest.approx(min(share, bound))
