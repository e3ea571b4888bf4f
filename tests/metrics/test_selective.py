"""Answers that a strategy is confident of: how many, and how many of them are right."""

import pytest

from winnow.metrics.base import evaluate
from winnow.metrics.selective import Coverage, SelectiveAccuracy, compute_agreement
from winnow.testing import make_sample

SAMPLES = [
    make_sample("x", 0, candidates=("x", "The X!", "x", "y", "x"), calls=5),
    make_sample("y", 1, candidates=("y", "y", "y", "y"), calls=4),
    make_sample("x", 2, candidates=("x", "y", "z"), calls=3),
    make_sample("unknown", 3, unknown=True, calls=5),
    make_sample("x", 4),
    make_sample("unknown", 5, unknown=True),
]


def test_agreement_is_of_all_replies() -> None:
    """After normalization; an answer without a vote has none, and that of a vote for "unknown" is 0."""
    assert [compute_agreement(sample) for sample in SAMPLES] == [0.8, 1.0, pytest.approx(1 / 3), 0.0, None, None]


def test_replies_that_are_unknown_agree_with_no_answer() -> None:
    """One answer beside four refusals, or from one of nine passages, is not a confident one."""
    for replies in (5, 9):
        lone = make_sample("x", candidates=("x",), calls=replies)
        assert compute_agreement(lone) == 1 / replies
        assert Coverage("c", "c").score(lone) == 0.0


@pytest.mark.parametrize(("threshold", "accuracy", "coverage"), [(0.8, 1 / 2, 2 / 4), (0.0, 2 / 3, 3 / 4), (1.0, 0.0, 1 / 4)])
def test_fewer_answers_are_better_ones(threshold: float, accuracy: float, coverage: float) -> None:
    """A refusal is never confident; answers and refusals without a vote count in neither."""
    metrics = [SelectiveAccuracy("a", "a", threshold=threshold), Coverage("c", "c", threshold=threshold)]
    values = evaluate(metrics, SAMPLES)
    assert (values["a"].mean, values["c"].mean, values["c"].n) == (pytest.approx(accuracy), pytest.approx(coverage), 4)
