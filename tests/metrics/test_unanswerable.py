"""Unanswerable sets: thresholds, refusals and trust, by hand."""

import numpy as np
import pytest

from winnow.errors import InputError
from winnow.metrics.unanswerable import (
    Calibration,
    area_under_risk,
    best_threshold,
    calibrate,
    classify,
    expected_calibration_error,
    misordered,
    refuse,
    reliability,
    risk_coverage,
)

BEST = np.array([0.2, 0.4, 0.6, 0.8, 0.9])
HOLDS = np.array([False, True, False, True, True])


def test_recall_precision_and_f1_of_sets_without_an_answer() -> None:
    """At 0.5 the first two are called: one of two found, one of two calls right; at 0.7 three are called, two right."""
    half = classify(BEST, HOLDS, 0.5)
    assert (half.recall.mean, half.precision.mean, half.f1.mean) == (0.5, 0.5, 0.5)
    more = classify(BEST, HOLDS, 0.7)
    assert (more.recall.mean, more.precision.mean, more.f1.mean) == pytest.approx((1.0, 2 / 3, 0.8))
    assert more.f1.low <= 0.8 <= more.f1.high
    assert classify(BEST, HOLDS, 0.0).f1.mean == 0.0


def test_misordered_pairs_by_hand() -> None:
    """Of three times two pairs one is the wrong way round (0.4 before 0.6); the base rate for all is a coin's throw."""
    assert misordered(BEST, HOLDS) == pytest.approx(1 / 6)
    flat = np.full(5, 0.6)
    assert (misordered(flat, HOLDS), expected_calibration_error(flat, HOLDS)) == (0.5, pytest.approx(0.0))
    assert np.isnan(misordered(BEST, np.ones(5, dtype=bool)))


def test_the_threshold_is_searched_by_f1() -> None:
    """0.7 and 0.75 call the same sets: the lower one."""
    assert best_threshold(BEST, HOLDS, [0.5, 0.7, 0.75, 0.9]) == 0.7
    with pytest.raises(InputError, match="from none"):
        best_threshold(BEST, HOLDS, [])


def test_refusing_costs_answers_and_finds_unanswerable_sets() -> None:
    """Of three sets with an answer two were right, one of them is refused; both sets without one are refused."""
    found = refuse(BEST, HOLDS, np.array([0.0, 1.0, 0.0, 1.0, 0.0]), 0.7)
    assert (found.before.mean, found.after.mean, found.refused.mean) == pytest.approx((2 / 3, 1 / 3, 1.0))
    assert (found.before.n, found.refused.n) == (3, 2)


def test_risk_falls_with_coverage_where_confidence_means_something() -> None:
    """Right, wrong, right, wrong by confidence: risks 0, 1/2, 1/3, 1/2; equal confidences enter together."""
    right = np.array([1.0, 0.0, 1.0, 0.0])
    coverage, risk = risk_coverage(np.array([0.9, 0.8, 0.7, 0.6]), right)
    assert coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert risk.tolist() == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])
    assert area_under_risk(np.array([0.9, 0.8, 0.7, 0.6]), right) == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert area_under_risk(np.full(4, 0.5), right) == 0.5


def test_calibration_by_hand() -> None:
    """Two at 0.9 of which one is right, two at 0.1 that are wrong: (2 * 0.4 + 2 * 0.1) / 4."""
    confidence, right = np.array([0.9, 0.9, 0.1, 0.1]), np.array([True, False, False, False])
    assert [(b.right, b.n) for b in reliability(confidence, right)] == [(0.0, 2), (0.5, 2)]
    assert expected_calibration_error(confidence, right) == pytest.approx(0.25)
    assert reliability(np.array([1.0, 0.0]), np.array([True, False]))[1].n == 1
    with pytest.raises(InputError, match="of probabilities"):
        reliability(np.array([3.0]), np.array([True]))


def test_rows_must_fit() -> None:
    """Scores and labels of different questions."""
    with pytest.raises(InputError, match="5 scores and 4 labels"):
        classify(BEST, HOLDS[:4], 0.5)


def test_calibration_finds_the_line_that_made_the_labels() -> None:
    """Labels drawn with log-odds of 2 x - 3; afterwards the calibration error is that of chance."""
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 4, 20_000)
    right = rng.random(20_000) < 1 / (1 + np.exp(-(2 * values - 3)))
    found = calibrate(values, right)
    assert (found.slope, found.offset) == pytest.approx((2, -3), abs=0.1)
    before, after = (expected_calibration_error(1 / (1 + np.exp(-odds)), right) for odds in (values, found(values)))
    assert before > 0.1
    assert after < 0.01


def test_calibration_without_anything_to_learn_from() -> None:
    """Labels of one kind change nothing; scores that rank backwards say the share, and no more."""
    values = np.array([-1.0, 0.0, 1.0, 2.0])
    assert calibrate(values, np.ones(4, dtype=bool)) == calibrate(values, np.zeros(4, dtype=bool)) == Calibration()
    assert calibrate(values, np.array([True, False, False, False]))(values) == pytest.approx([np.log(1 / 3)] * 4)
    with pytest.raises(InputError, match="received 4 scores and 1 labels"):
        calibrate(values, np.array([True]))
