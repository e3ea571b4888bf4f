"""The contexts of a prompt, as a placement arranged them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from winnow.records import Context, Provenance, Question


@dataclass(frozen=True, slots=True)
class PlacedContexts:
    """A question's k contexts in prompt order. `gold_position` counts from 1 and is 0 if absent."""

    contexts: tuple[Context, ...]
    gold_position: int
    provenance: Provenance

    def with_gold_position(self) -> "PlacedContexts":
        """Return a copy with `gold_position` computed from the contexts."""
        position = next(
            (index for index, context in enumerate(self.contexts, start=1) if context.is_gold), 0
        )
        return replace(self, gold_position=position)


class PlacementRule(Protocol):
    """A rule that selects, orders and may change the contexts of a prompt."""

    @property
    def moves_gold(self) -> bool:
        """Return whether the position of the gold passage says nothing of its rank."""
        ...

    @property
    def uses_gold(self) -> bool:
        """Return whether the contexts or their order depend on which of them are gold passages."""
        ...

    @property
    def words(self) -> str:
        """Return the rule in words, which follow those for the passages of a prompt."""
        ...

    def place(self, question: Question, contexts: Sequence[Context], k: int) -> PlacedContexts:
        """Select k contexts (fewer if the ranking is shorter) and put them in prompt order."""
        ...
