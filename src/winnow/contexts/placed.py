"""The contexts of a prompt, as a placement arranged them."""

from dataclasses import dataclass, replace

from winnow.records import Context, Provenance


@dataclass(frozen=True, slots=True)
class PlacedContexts:
    """The k contexts of one question in prompt order. The gold passage's position starts at 1; 0 means that it is absent."""

    contexts: tuple[Context, ...]
    gold_position: int
    provenance: Provenance

    def with_gold_position(self) -> "PlacedContexts":
        """Return a copy with `gold_position` computed from the contexts."""
        position = next((index for index, context in enumerate(self.contexts, start=1) if context.is_gold), 0)
        return replace(self, gold_position=position)
