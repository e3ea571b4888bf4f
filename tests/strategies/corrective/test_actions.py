"""The action of CRAG, by thresholds and scores written by hand."""

import math

import pytest

from winnow.errors import ConfigError
from winnow.strategies.corrective.actions import (
    Action,
    Thresholds,
    compute_relevance_score,
)


def test_actions_by_hand() -> None:
    """Any score at or above the upper threshold is enough; equal scores count as reaching it."""
    thresholds = Thresholds(0.5, -0.9)
    cases = (
        ([0.5, -1], "correct"),
        ([0.49], "ambiguous"),
        ([-0.9], "ambiguous"),
        ([-0.91], "incorrect"),
        ([], "incorrect"),
    )
    for scores, action in cases:
        assert thresholds.choose(scores) == action
    assert Thresholds(0.5, -0.9, "correct").choose([0.9]) == Action.AMBIGUOUS
    assert Thresholds(0.5, -0.9, "incorrect").choose([-1]) == Action.AMBIGUOUS
    assert Thresholds(0.5, -0.9, "ambiguous").choose([-0.1]) == Action.CORRECT
    assert Thresholds(0.5, -0.9, "ambiguous").choose([-0.3]) == Action.INCORRECT
    for settings, message in (
        ((-1.0, 0.0), "lower must not exceed upper"),
        ((0.5, -0.9, "maybe"), "received 'maybe'"),
    ):
        with pytest.raises(ConfigError, match=message):
            Thresholds(*settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        Thresholds(math.nan, -0.9)


def test_scores_are_on_the_scale_of_the_evaluator() -> None:
    """2 sigmoid(x) - 1, also for log-odds that would overflow."""
    for log_odds in (-800.0, -2.0, 0.0, 0.3, 800.0):
        expected = (
            2 / (1 + math.exp(-log_odds)) - 1 if abs(log_odds) < 700 else math.copysign(1, log_odds)
        )
        assert compute_relevance_score(log_odds) == pytest.approx(expected)
