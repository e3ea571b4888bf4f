"""Intervals against numbers worked out by hand."""

import numpy as np
import pytest

from winnow.errors import InputError
from winnow.metrics.intervals import (
    UNDEFINED,
    Interval,
    build_undefined_interval,
    compute_bounds,
    compute_mean_interval,
    compute_ratio_interval,
    resample_joint_sums,
    resample_means,
    widen_bounds,
)


def test_a_share_has_wilsons_interval() -> None:
    """Half right of 400: (0.5 + z²/800 ± z √(1/1600 + z²/640000)) / (1 + z²/400) = 0.5 ± 0.0488."""
    result = compute_mean_interval([0.0, 1.0] * 200)
    assert result.mean == 0.5
    assert (result.low, result.high) == pytest.approx((0.4512, 0.5488), abs=1e-4)
    assert result.format_percent() == "50.0 [45.1, 54.9]"


@pytest.mark.parametrize(("value", "low", "high"), [(0.0, 0.0, 6.0), (1.0, 94.0, 100.0)])
def test_none_or_all_of_60_is_no_certainty(value: float, low: float, high: float) -> None:
    """z² / (60 + z²) = 6.0 %; a bootstrap has no width there."""
    result = compute_mean_interval([value] * 60)
    assert (100 * result.low, 100 * result.high) == pytest.approx((low, high), abs=0.05)


@pytest.mark.parametrize("n", [1, 7, 10, 60])
def test_a_share_lies_within_its_interval(n: int) -> None:
    """Also to the last digit: a plot cannot draw an error bar of negative length."""
    for successes in range(n + 1):
        result = compute_mean_interval([1.0] * successes + [0.0] * (n - successes))
        assert 0 <= result.low <= result.mean <= result.high <= 1


def test_means_have_a_bootstrap_that_repeats() -> None:
    """Values 0, 1 and 2 in equal numbers: mean 1, standard error √(2/3/300) = 0.047; another seed
    moves the bounds.
    """
    data = [0.0, 1.0, 2.0] * 100
    result = compute_mean_interval(data)
    assert (result.mean, result.low, result.high) == pytest.approx((1.0, 0.908, 1.092), abs=0.02)
    assert result == compute_mean_interval(data)
    assert result != compute_mean_interval(data, seed=1)
    assert result.format_number(1) == "1.0 [0.9, 1.1]"


def test_a_number_is_no_share() -> None:
    """One call for each question has no spread, though every value is 1."""
    assert compute_mean_interval([1.0] * 60, is_share=False).format_number(1) == "1.0 [1.0, 1.0]"
    assert compute_mean_interval([1.0] * 60).low < 0.95


def test_a_share_of_some_questions_has_wilsons_interval_with_counts() -> None:
    """Two of six pools among ten questions; none of six: z² / (6 + z²) = 39.0 %; all of six: from
    61.0 %.
    """
    wholes = [1.0] * 6 + [0.0] * 4
    result = compute_ratio_interval([1.0, 1.0] + [0.0] * 8, wholes)
    assert (result.mean, result.n, result.counts) == (pytest.approx(1 / 3), 6, (2.0, 6.0))
    assert result.format_percent() == "33.3 [9.7, 70.0] (2/6)"
    none, all_of_them = (
        compute_ratio_interval([0.0] * 10, wholes),
        compute_ratio_interval(wholes, wholes),
    )
    assert (none.low, none.high) == pytest.approx((0.0, 0.390), abs=5e-4)
    assert (all_of_them.low, all_of_them.high) == pytest.approx((0.610, 1.0), abs=5e-4)


def test_a_share_of_calls_is_resampled_by_question() -> None:
    """Calls of one question are not independent: 5 of 5 in one question and none in nine is
    what one question of ten is.
    """
    wholes = [5.0] * 10
    result = compute_ratio_interval([5.0] + [0.0] * 9, wholes)
    assert (result.mean, result.counts) == (0.1, (5.0, 50.0))
    share = compute_mean_interval([1.0] + [0.0] * 9)
    assert (result.low, result.high) == pytest.approx((0.0, share.high))
    none = compute_ratio_interval([0.0] * 10, wholes)
    assert none.high == pytest.approx(1.96**2 / (10 + 1.96**2), abs=1e-3)
    one = compute_ratio_interval([1.0], [2.0])
    assert one.low < 0.5 < one.high


@pytest.mark.parametrize(("share", "num_questions"), [(0.02, 100), (0.1, 10), (0.5, 5)])
def test_a_ratio_of_few_clustered_events_covers(share: float, num_questions: int) -> None:
    """In at least 93 % of samples, whose replies to one question are all alike in half of them."""
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(300):
        alike = rng.random(num_questions) < 0.5
        events = rng.binomial(5, share, num_questions)
        counts = np.where(alike, 5 * (rng.random(num_questions) < share), events)
        interval = compute_ratio_interval(counts, np.full(num_questions, 5.0), resamples=500)
        covered += interval.low <= share <= interval.high
    assert covered >= 0.93 * 300


def test_large_counts_are_not_rounded() -> None:
    """The counts of a ratio are whole numbers, and printed as such."""
    interval = Interval(0.01, 0.0, 0.02, 9, (11313, 1131300))
    assert interval.format_percent() == "1.0 [0.0, 2.0] (11313/1131300)"


def test_a_ratio_without_a_denominator_is_undefined() -> None:
    """It is not 0, and a resample without one does not count."""
    result = compute_ratio_interval([0.0, 0.0], [0.0, 0.0])
    assert result.n == 0
    assert (
        result.format_percent()
        == result.format_number()
        == build_undefined_interval().format_percent()
        == UNDEFINED
    )
    assert not np.isnan(compute_ratio_interval([1.0, 0.0, 0.0], [2.0, 0.0, 0.0]).low)


@pytest.mark.parametrize("bad", [[], [0.5, float("nan")]])
def test_bad_values_are_refused(bad: list[float]) -> None:
    """No value, or a NaN, is never averaged."""
    with pytest.raises(InputError):
        compute_mean_interval(bad)


def test_a_ratio_may_exceed_one() -> None:
    """Such as tokens per call; one question has no width."""
    ratio = compute_ratio_interval([5, 3, 1], [2, 2, 2])
    assert (ratio.mean, ratio.low < 1.5 < ratio.high) == (1.5, True)
    assert (
        compute_ratio_interval([4.0], [2.0]).low,
        compute_ratio_interval([4.0], [2.0]).high,
    ) == (2.0, 2.0)


def test_a_ratio_above_one_is_no_share() -> None:
    """Two questions of one hit each, of which only one counts in the denominator: the ratio is 2,
    by the bootstrap.
    """
    interval = compute_ratio_interval([1, 1], [1, 0])
    assert (interval.mean, interval.n) == (2.0, 1)
    assert interval.low <= 2.0 <= interval.high


def test_many_questions_have_the_interval_of_a_bootstrap() -> None:
    """Above the number from which on the normal distribution is used, the bounds are those of
    resampling, even if skewed.
    """
    values = np.random.default_rng(3).exponential(size=20_001)
    rng = np.random.default_rng(4)
    means = [values[rng.integers(0, len(values), len(values))].mean() for _ in range(2000)]
    expected = np.quantile(means, [0.025, 0.975])
    interval = compute_mean_interval(values, is_share=False)
    assert [interval.low, interval.high] == pytest.approx(
        expected, abs=0.1 * (expected[1] - expected[0])
    )
    assert interval == compute_mean_interval(values, is_share=False)


@pytest.mark.parametrize(
    ("parts", "wholes"), [([0, 1, 1, 1], [0, 5, 5, 5]), ([1, 2, 3, 1, 2], [3, 6, 9, 3, 6])]
)
def test_a_ratio_that_no_resample_changes_has_wilsons_interval(
    parts: list[int], wholes: list[int]
) -> None:
    """The same ratio in every question, with other amounts: rounding must not hide that the
    bootstrap has no width.
    """
    for times in (1, 3, 40):
        result = compute_ratio_interval(parts * times, wholes * times)
        assert result.mean == pytest.approx(sum(parts) / sum(wholes))
        assert result.low < result.mean - 0.02 < result.mean + 0.02 < result.high


def test_equal_questions_are_resampled_together() -> None:
    """However many there are: the sums of whole numbers are whole, with the mean and covariance of
    the bootstrap.
    """
    rng = np.random.default_rng(0)
    wholes = rng.integers(0, 4, 30_000)
    terms = np.stack([rng.binomial(wholes, 0.3), wholes]).astype(np.float64)
    sums = resample_joint_sums(terms, 0, 4000)
    assert sums.shape == (2, 4000)
    assert (sums == np.round(sums)).all()
    assert sums.mean(axis=1) == pytest.approx(terms.sum(axis=1), rel=0.002)
    assert np.cov(sums) == pytest.approx(np.cov(terms) * 30_000, rel=0.1)
    assert (resample_joint_sums(terms, 0) == resample_joint_sums(terms, 0)).all()
    assert (resample_joint_sums(terms, 0) != resample_joint_sums(terms, 1)).any()


@pytest.mark.parametrize("num_questions", [19_000, 21_000])
def test_many_different_questions_have_the_interval_of_the_delta_method(
    num_questions: int,
) -> None:
    """Numerator and denominator vary together, so that the ratio hardly does: exact resamples and
    normal draws agree.
    """
    rng = np.random.default_rng(1)
    wholes = rng.uniform(1, 9, num_questions)
    parts = 0.5 * wholes + rng.normal(0, 0.2, num_questions)
    result = compute_ratio_interval(parts, wholes)
    residuals = parts - result.mean * wholes
    error = residuals.std() / wholes.mean() / np.sqrt(num_questions)
    assert (result.high - result.low) / 2 == pytest.approx(1.96 * error, rel=0.08)
    sums = resample_joint_sums(np.stack([parts, wholes]), 0)
    assert (len(np.unique(sums[1])) > 1900, sums[1].mean()) == (
        True,
        pytest.approx(wholes.sum(), rel=0.002),
    )


@pytest.mark.parametrize(
    ("values", "share"), [([0.5], 0.5), ([2 / 3] * 5, 2 / 3), ([0.0] * 59 + [0.5], 0.5 / 60)]
)
def test_few_other_values_are_no_certainty(values: list[float], share: float) -> None:
    """A fraction has at least the interval of a share of its size; that of many different values is
    the bootstrap's.
    """
    interval = compute_mean_interval(values)
    z, n = 1.959964, len(values)
    center, half = share + z**2 / (2 * n), z * (share * (1 - share) / n + z**2 / (4 * n**2)) ** 0.5
    assert interval.low <= (center - half) / (1 + z**2 / n) + 1e-6
    assert interval.high >= (center + half) / (1 + z**2 / n) - 1e-6
    spread = np.linspace(0.4, 0.6, 60)
    assert compute_mean_interval(spread).high < 0.6
    assert compute_mean_interval(values, is_share=False).high <= max(values)


@pytest.mark.parametrize("share", [0.97, 0.99])
def test_the_interval_of_a_fraction_near_one_covers(share: float) -> None:
    """Questions that all but always have 1, else a half, 60 of them."""
    random = np.random.default_rng(0)
    truth = share + (1 - share) / 2
    draws = np.where(random.random((300, 60)) < share, 1.0, 0.5)
    covered = [(one := compute_mean_interval(row)).low <= truth <= one.high for row in draws]
    assert np.mean(covered) >= 0.94


@pytest.mark.parametrize(("num_other", "is_wilson"), [(9, True), (10, False)])
def test_ten_other_values_are_enough_for_a_bootstrap(num_other: int, is_wilson: bool) -> None:
    """With nine, the interval is at least Wilson's, and never narrower than the bootstrap's."""
    values = np.append(np.ones(200 - num_other), np.full(num_other, 0.5))
    interval, bootstrap = (
        compute_mean_interval(values),
        compute_bounds(resample_means(values, 0, 2000)),
    )
    assert (interval.low < bootstrap[0] - 0.002) == is_wilson
    assert interval.low <= bootstrap[0]
    assert interval.high >= bootstrap[1]
    assert widen_bounds((0.0, 1.0), 0.5, np.full((1, 5), 0.5)) == (0.0, 1.0)
