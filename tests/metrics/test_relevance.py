"""Metrics of retrieval evaluators, against cases computed by hand and against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from winnow.errors import InputError
from winnow.metrics.relevance import (
    choose_accuracy_threshold,
    compute_auroc_interval,
    list_candidates,
    search_action_thresholds,
)


def test_thresholds_by_hand() -> None:
    """Four positive and two negative questions; a negative one scores second best."""
    scores = np.array([0.9, 0.8, 0.6, 0.4, 0.2, 0.0])
    answerable = np.array([True, False, True, True, True, False])
    found = search_action_thresholds(scores, answerable, alpha=1.0)
    assert found.candidates.tolist() == pytest.approx([0.0, 0.1, 0.3, 0.5, 0.7, 0.85, 1.9])
    # at 0.1: TP 4, TN 1, FP 1: 5/6 - 1/2; at 0.85: TP 1, TN 2, FP 0: 3/6; at 1.9: TN 2: 2/6
    assert found.upper_scores.tolist() == pytest.approx(
        [4 / 6 - 1, 5 / 6 - 0.5, 4 / 6 - 0.5, 0.0, 2 / 6 - 0.5, 0.5, 2 / 6]
    )
    assert found.upper == pytest.approx(0.85)
    # the lower one: at 0.1 no positive question is lost: 5/6 - 0
    assert found.lower_scores[:3].tolist() == pytest.approx([4 / 6, 5 / 6, 4 / 6 - 0.25])
    assert found.lower == pytest.approx(0.1)


def test_without_a_penalty_both_thresholds_are_the_most_accurate_one() -> None:
    """And the lower one never exceeds the upper one."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        labels = rng.random(40) < 0.5
        scores = np.clip(labels - 0.5 + rng.normal(0, 0.7, 40), -1, 1)
        found = search_action_thresholds(scores, labels, alpha=0.0)
        assert found.upper == found.lower == choose_accuracy_threshold(scores, labels)
        for alpha in (0.3, 1.0, 5.0):
            found = search_action_thresholds(scores, labels, alpha)
            assert found.lower <= found.upper
            accuracy = max(((scores >= cut) == labels).mean() for cut in list_candidates(scores))
            assert found.upper_scores.max() <= accuracy + 1e-9


@pytest.mark.parametrize(
    ("labels", "alpha"), [([True, True], 1.0), ([False, False], 1.0), ([True, False], -1.0)]
)
def test_one_label_alone_has_no_threshold(labels: list[bool], alpha: float) -> None:
    """And a negative alpha would reward errors."""
    with pytest.raises(
        InputError,
        match="needs questions with and without a relevant context, and alpha of at least 0",
    ):
        search_action_thresholds(np.array([0.1, 0.2]), np.array(labels), alpha)


def test_the_area_is_that_of_scikit_learn_and_its_interval_covers_questions() -> None:
    """Pairs of one question are resampled together, so that copies of every pair do not narrow the
    interval.
    """
    rng = np.random.default_rng(1)
    labels = np.tile([True, False], 60)
    scores = labels + rng.normal(0, 1.2, 120)
    groups = [str(index // 2) for index in range(120)]
    interval = compute_auroc_interval(scores, labels, groups)
    assert interval.mean == pytest.approx(roc_auc_score(labels, scores))
    assert interval.low < interval.mean < interval.high
    assert interval.n == 60
    copied = compute_auroc_interval(
        np.repeat(scores, 5), np.repeat(labels, 5), np.repeat(groups, 5).tolist()
    )
    assert copied.high - copied.low == pytest.approx(interval.high - interval.low, rel=0.05)
    difference = compute_auroc_interval(scores, labels, groups, scores)
    assert (difference.mean, difference.low, difference.high) == (0, 0, 0)
    worse = compute_auroc_interval(scores, labels, groups, rng.normal(0, 1, 120))
    assert worse.mean > 0.1


def test_of_equally_good_thresholds_the_middle_one_is_chosen() -> None:
    """0.1, 0.5 and 1.8, or 0, 0.3 and 0.7."""
    scores = np.array([0.0, 0.2, 0.4, 0.6, 0.8])
    assert choose_accuracy_threshold(
        scores, np.array([False, True, False, True, False])
    ) == pytest.approx(0.5)
    assert choose_accuracy_threshold(
        scores, np.array([True, False, True, False, True])
    ) == pytest.approx(0.3)


def test_an_area_needs_both_labels() -> None:
    """In all pairs, and in a resample, which is left out otherwise."""
    with pytest.raises(InputError, match="received 0 relevant of 2"):
        compute_auroc_interval(np.array([0.1, 0.2]), np.array([False, False]), ["a", "b"])
    interval = compute_auroc_interval(
        np.array([0.1, 0.2, 0.3]), np.array([False, True, False]), ["a", "b", "c"]
    )
    assert 0 <= interval.low <= interval.mean == 0.5 <= interval.high <= 1


def test_whole_questions_are_resampled() -> None:
    """Of unequal numbers of pairs, in any order: the bounds are those of scikit-learn in a naive
    bootstrap over questions.
    """
    rng = np.random.default_rng(3)
    groups = [str(number) for number in rng.integers(0, 25, 120)]
    labels = np.array([int(group) % 3 == 0 for group in groups]) ^ (rng.random(120) < 0.1)
    scores = labels + rng.normal(0, 1.5, 120) + np.array([int(group) for group in groups]) / 10
    members = [
        [n for n, one in enumerate(groups) if one == group] for group in dict.fromkeys(groups)
    ]
    scores = scores.round(1)  # so that some are equal
    draws, areas = np.random.default_rng(7), []
    for _ in range(1000):
        rows = [
            n for index in draws.integers(0, len(members), len(members)) for n in members[index]
        ]
        areas.append(roc_auc_score(labels[rows], scores[rows]))
    interval = compute_auroc_interval(scores, labels, groups, seed=7)
    assert (interval.low, interval.high) == pytest.approx(
        np.quantile(areas, [0.025, 0.975]), abs=1e-12
    )
