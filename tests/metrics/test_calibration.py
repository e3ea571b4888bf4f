"""Calibration, by hand."""

import numpy as np
import pytest

from winnow.errors import InputError
from winnow.metrics.calibration import (
    Calibration,
    compute_probability,
    compute_reliability,
    expected_calibration_error,
    fit_platt_scaling,
    misranking_rate,
)

BEST = np.array([0.2, 0.4, 0.6, 0.8, 0.9])
HOLDS = np.array([False, True, False, True, True])


def test_probabilities_of_log_odds() -> None:
    """0 is one half; odds of 3 are 3/4 and of 1/3 are 1/4; the ends do not overflow."""
    chances = compute_probability(
        np.array([0.0, np.log(3.0), -np.log(3.0), -np.log(9.0), 1e4, -1e4], dtype=np.float32)
    )
    assert chances.tolist() == pytest.approx([0.5, 0.75, 0.25, 0.1, 1.0, 0.0])


def test_misranking_rate_pairs_by_hand() -> None:
    """Of three times two pairs one is the wrong way round (0.4 before 0.6); the base rate for all
    is a coin's throw.
    """
    assert misranking_rate(BEST, HOLDS) == pytest.approx(1 / 6)
    flat = np.full(5, 0.6)
    assert (misranking_rate(flat, HOLDS), expected_calibration_error(flat, HOLDS)) == (
        0.5,
        pytest.approx(0.0),
    )
    assert np.isnan(misranking_rate(BEST, np.ones(5, dtype=bool)))
    assert np.isnan(misranking_rate(BEST, np.zeros(5, dtype=bool)))


def test_calibration_by_hand() -> None:
    """Two at 0.9 of which one is right, two at 0.1 that are wrong: (2 * 0.4 + 2 * 0.1) / 4."""
    confidence, right = np.array([0.9, 0.9, 0.1, 0.1]), np.array([True, False, False, False])
    assert [(b.accuracy, b.n) for b in compute_reliability(confidence, right)] == [
        (0.0, 2),
        (0.5, 2),
    ]
    assert expected_calibration_error(confidence, right) == pytest.approx(0.25)
    assert compute_reliability(np.array([1.0, 0.0]), np.array([True, False]))[1].n == 1
    tenths = compute_reliability(np.array([0.05, 0.15, 0.95, 0.85, 0.87]), np.ones(5, dtype=bool))
    assert [point.n for point in tenths] == [1, 1, 2, 1]
    for outside in (3.0, 1.01, -0.01):
        with pytest.raises(InputError, match="needs probabilities"):
            compute_reliability(np.array([0.5, outside]), np.array([True, True]))


def test_calibration_finds_the_line_that_made_the_labels() -> None:
    """Labels drawn with log-odds of 2 x - 3; afterwards the calibration error is that of chance."""
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 4, 20_000)
    right = rng.random(20_000) < 1 / (1 + np.exp(-(2 * values - 3)))
    fit = fit_platt_scaling(values, right)
    assert (fit.slope, fit.offset) == pytest.approx((2, -3), abs=0.1)
    before, after = (
        expected_calibration_error(1 / (1 + np.exp(-odds)), right) for odds in (values, fit(values))
    )
    assert before > 0.1
    assert after < 0.01


def test_calibration_without_anything_to_learn_from() -> None:
    """Labels of one kind change nothing; scores that rank backwards say the share, and no more."""
    values = np.array([-1.0, 0.0, 1.0, 2.0])
    assert (
        fit_platt_scaling(values, np.ones(4, dtype=bool))
        == fit_platt_scaling(values, np.zeros(4, dtype=bool))
        == Calibration()
    )
    assert fit_platt_scaling(values, np.array([True, False, False, False]))(
        values
    ) == pytest.approx([np.log(1 / 3)] * 4)
    for labels in (np.array([True]), np.ones(5, dtype=bool)):
        with pytest.raises(InputError, match=f"received 4 scores and {len(labels)} labels"):
            fit_platt_scaling(values, labels)


def test_a_gentle_slope_is_still_a_slope() -> None:
    """Of log-odds in the hundreds, fitted with 1/100, the order stays; with -1/100 it is not
    reversed.
    """
    rng = np.random.default_rng(0)
    values = rng.uniform(-300, 300, 5000)
    fit = fit_platt_scaling(values, rng.random(5000) < 1 / (1 + np.exp(-values / 100)))
    assert (fit.slope, fit.offset) == pytest.approx((0.01, 0.0), abs=0.1)
    assert fit.slope > 0.005
    backwards = fit_platt_scaling(values, rng.random(5000) < 1 / (1 + np.exp(values / 100)))
    assert backwards.slope == 0


def test_a_probability_that_is_no_number_is_refused() -> None:
    """It must not become an error of 0."""
    for confidence in ([np.nan, 0.9], [np.nan, np.nan]):
        with pytest.raises(InputError, match="needs probabilities from 0 to 1"):
            expected_calibration_error(np.array(confidence), np.array([False, True]))


@pytest.mark.parametrize(
    ("spread", "offset"), [(1e-3, 2.0), (0.01, 30.0), (1.0, 3e4), (100.0, 0.0)]
)
def test_platt_scaling_does_not_depend_on_the_scale(spread: float, offset: float) -> None:
    """Log-odds that are moved or spread have the probabilities of the others."""
    rng = np.random.default_rng(5)
    log_odds = rng.normal(size=2000)
    correct = rng.random(2000) < 1 / (1 + np.exp(-1.5 * log_odds))
    moved = log_odds * spread + offset
    expected = fit_platt_scaling(log_odds, correct)(log_odds)
    assert fit_platt_scaling(moved, correct)(moved) == pytest.approx(expected, abs=0.01)
