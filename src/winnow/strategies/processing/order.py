"""Order of contexts: the best at both ends, where models read best (Liu et al. 2024), or last."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from winnow.identity.values import check_values
from winnow.records import Context, Question
from winnow.requests import Plan

By = Literal["ends", "reversed"]


@dataclass(frozen=True, slots=True)
class Reordering:
    """A context processor that changes the order of the contexts alone.

    Args:
        by: "ends" puts the first context first, the second one last, the third one second, and so
            on; "reversed" puts the first one last.
    """

    revision: ClassVar[int] = 1

    by: By = "ends"

    def __post_init__(self) -> None:
        check_values("context.plan", self)

    def process(self, question: Question, contexts: Sequence[Context]) -> Plan[tuple[Context, ...]]:  # noqa: ARG002
        """Return the contexts in another order, without a request."""
        yield from ()
        if self.by == "reversed":
            return tuple(contexts[::-1])
        return (*contexts[::2], *contexts[1::2][::-1])
