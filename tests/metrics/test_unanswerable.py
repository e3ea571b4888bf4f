"""Unanswerable sets: thresholds, abstention and risk, by hand."""

import numpy as np
import pytest

from winnow.errors import InputError
from winnow.metrics.unanswerable import (
    compute_area_under_risk,
    compute_risk_coverage,
    evaluate_abstention,
    evaluate_detection,
    select_threshold,
)

BEST = np.array([0.2, 0.4, 0.6, 0.8, 0.9])
HOLDS = np.array([False, True, False, True, True])


def test_recall_precision_and_f1_of_sets_without_an_answer() -> None:
    """At 0.5 the first two are called: one of two found, one of two calls right; at 0.7 three are
    called, two right.
    """
    half = evaluate_detection(BEST, HOLDS, 0.5)
    assert (half.recall.mean, half.precision.mean, half.f1.mean) == (0.5, 0.5, 0.5)
    more = evaluate_detection(BEST, HOLDS, 0.7)
    assert (more.recall.mean, more.precision.mean, more.f1.mean) == pytest.approx((1.0, 2 / 3, 0.8))
    assert more.f1.low <= 0.8 <= more.f1.high
    none = evaluate_detection(BEST, HOLDS, 0.0)
    assert (none.recall.mean, none.precision.n, none.f1.mean) == (0.0, 0, 0.0)
    assert none.recall.high > 0.5
    assert (more.precision.counts, more.recall.counts) == ((2.0, 3.0), (2.0, 2.0))


def test_ratios_without_a_denominator_are_undefined() -> None:
    """Every set holds an answer and none is flagged: there is nothing to find, and nothing was
    said.
    """
    scores = evaluate_detection(BEST, np.ones(5, dtype=bool), 0.0)
    assert (scores.recall.n, scores.precision.n, scores.f1.n) == (0, 0, 0)
    assert evaluate_abstention(BEST, np.ones(5, dtype=bool), np.ones(5), 0.5).abstention_rate.n == 0


def test_the_threshold_is_searched_by_f1() -> None:
    """0.7 and 0.75 call the same sets: the lower one."""
    assert select_threshold(BEST, HOLDS, [0.5, 0.7, 0.75, 0.9]) == 0.7
    with pytest.raises(InputError, match="from an empty list"):
        select_threshold(BEST, HOLDS, [])


def test_the_threshold_is_that_with_the_highest_f1() -> None:
    """Of random scores, against the F1 of each threshold by itself."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores, holds = rng.random(30).round(1), rng.random(30) < 0.6
        thresholds = [0.05, 0.1, 0.35, 0.5, 0.75, 0.9]
        f1 = [evaluate_detection(scores, holds, t, resamples=2).f1.mean for t in thresholds]
        assert select_threshold(scores, holds, thresholds) == thresholds[int(np.argmax(f1))]


def test_abstaining_costs_answers_and_finds_unanswerable_sets() -> None:
    """Of three sets with an answer two were right, one of them is withheld; both sets without one
    are.
    """
    outcome = evaluate_abstention(BEST, HOLDS, np.array([0.0, 1.0, 0.0, 1.0, 0.0]), 0.7)
    assert (
        outcome.accuracy_before.mean,
        outcome.accuracy_after.mean,
        outcome.abstention_rate.mean,
    ) == pytest.approx((2 / 3, 1 / 3, 1.0))
    assert (outcome.accuracy_before.n, outcome.abstention_rate.n) == (3, 2)
    at_a_score = evaluate_abstention(BEST, HOLDS, np.array([0.0, 1.0, 0.0, 1.0, 0.0]), 0.8)
    assert (at_a_score.accuracy_after.mean, at_a_score.abstention_rate.mean) == (0.0, 1.0)


def test_risk_falls_with_coverage_where_confidence_means_something() -> None:
    """Right, wrong, right, wrong by confidence: risks 0, 1/2, 1/3, 1/2; equal confidences enter
    together.
    """
    right = np.array([1.0, 0.0, 1.0, 0.0])
    coverage, risk = compute_risk_coverage(np.array([0.9, 0.8, 0.7, 0.6]), right)
    assert coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert risk.tolist() == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])
    assert compute_area_under_risk(np.array([0.9, 0.8, 0.7, 0.6]), right) == pytest.approx(
        (0 + 1 / 2 + 1 / 3 + 1 / 2) / 4
    )
    assert compute_area_under_risk(np.full(4, 0.5), right) == 0.5


def test_rows_must_fit() -> None:
    """Scores and labels of different questions."""
    with pytest.raises(InputError, match="5 scores and 4 labels"):
        evaluate_detection(BEST, HOLDS[:4], 0.5)


def test_confidences_of_minus_infinity_are_a_tie() -> None:
    """As any other equal confidences; one that is no number is refused."""
    correct = np.array([1.0, 0.0, 0.0])
    assert compute_area_under_risk(np.full(3, -np.inf), correct) == compute_area_under_risk(
        np.full(3, -9.0), correct
    )
    with pytest.raises(InputError, match="confidence in answer 1 is NaN"):
        compute_area_under_risk(np.array([0.5, np.nan, 0.5]), correct)
