"""CRAG's action trigger: what to do with passages, by their relevance scores and two thresholds."""

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from winnow.errors import ConfigError


class Action(enum.StrEnum):
    """What CRAG does with the retrieved passages."""

    CORRECT = "correct"
    """Refine them."""
    AMBIGUOUS = "ambiguous"
    """Refine them and search for more."""
    INCORRECT = "incorrect"
    """Discard them and search instead."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Two thresholds on the relevance scores, which are in [-1, 1].

    The slides have 0.5 and -0.9; the authors' code has 0.592 and -0.995 for PopQA.

    Args:
        upper: Smallest score that makes the action "correct".
        lower: Smallest score that makes the action "ambiguous" if no passage reaches the upper
            threshold.
        removed: Action that never occurs (table 2): instead of "correct" or "incorrect" it is
            "ambiguous", and instead of "ambiguous" it is the one whose threshold is nearer to the
            best score. "" removes none.

    Raises:
        ConfigError: If the lower threshold is above the upper one.
    """

    revision: ClassVar[int] = 1

    upper: float = 0.5
    lower: float = -0.9
    removed: str = ""

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ConfigError(
                f"correction.thresholds: lower must not exceed upper; received lower={self.lower} "
                f"and upper={self.upper}."
            )
        if self.removed not in ("", *Action):
            raise ConfigError(
                f"correction.thresholds.removed must be empty or one of {', '.join(Action)}; "
                f"received {self.removed!r}."
            )

    def choose(self, scores: Sequence[float]) -> Action:
        """Choose the action for the passages of a question. Without any passage, it is "incorrect".

        Args:
            scores: Relevance scores of the passages in [-1, 1].
        """
        best = max(scores, default=-math.inf)
        action = (
            Action.CORRECT
            if best >= self.upper
            else Action.AMBIGUOUS
            if best >= self.lower
            else Action.INCORRECT
        )
        if action != self.removed:
            return action
        if action is not Action.AMBIGUOUS:
            return Action.AMBIGUOUS
        return Action.CORRECT if best >= (self.upper + self.lower) / 2 else Action.INCORRECT


def compute_relevance_score(log_odds: float) -> float:
    """Convert log-odds to CRAG's scale, from -1 (irrelevant) to 1, as 2 sigmoid(log_odds) - 1."""
    return math.tanh(log_odds / 2)


Scale = Literal["tanh", "none"]
"""Conversion of estimator scores: tanh(x / 2) of log-odds, or none for a regression on -1 and 1."""
