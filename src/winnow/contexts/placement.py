"""Placement: which k contexts go into the prompt, in which order, and at which position the gold passage is.

`keep` leaves the top k as retrieved; `insert` replaces the k-th by a missing gold passage; `remove` takes gold passages out
and refills from below. Then `order` moves the gold passage: `first`, `last`, `random` (seeded by question), a 1-based
position, or `retrieved` (unchanged). Under `retrieved` an inserted gold passage gets a seeded random position
(Post-Fusion paper, section 4).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from winnow.contexts.gold import gold_provenance
from winnow.errors import ConfigError
from winnow.records import Context, PlacedContexts, Question

Order = Literal["retrieved", "first", "last", "random"] | int
Gold = Literal["keep", "insert", "remove"]


@dataclass(frozen=True, slots=True)
class Placement:
    """How contexts are chosen and ordered; `seed` matters for random positions only."""

    gold: Gold = "keep"
    order: Order = "retrieved"
    seed: int = 13

    def __post_init__(self) -> None:
        """Refuse unknown rules."""
        if self.gold not in ("keep", "insert", "remove"):
            raise ConfigError(f"placement.gold must be keep, insert or remove; received {self.gold!r}.")
        is_named = self.order in ("retrieved", "first", "last", "random")
        if not is_named and not (isinstance(self.order, int) and self.order >= 1):
            raise ConfigError(
                f"placement.order must be retrieved, first, last, random or a position from 1; received {self.order!r}."
            )

    def place(self, question: Question, contexts: Sequence[Context], k: int) -> PlacedContexts:
        """Return k contexts of a question (fewer if the ranking is shorter) in prompt order.

        Args:
            question: decides the seed of random positions.
            contexts: the ranking, best first; gold passages are marked, a gold that was not retrieved has rank 0.
            k: how many contexts the prompt shows.

        Raises:
            ConfigError: if `order` is a position beyond k.

        """
        if isinstance(self.order, int) and self.order > k:
            raise ConfigError(f"placement.order={self.order} is beyond k={k}; use a position from 1 to k.")
        ranked = [c for c in contexts if c.rank > 0]
        gold = next((c for c in ranked if c.is_gold), None) or next((c for c in contexts if c.is_gold), None)
        provenance = gold_provenance(question, contexts)
        if self.gold == "remove":
            ranked = [c for c in ranked if not c.is_gold]
        top = ranked[:k]
        if self.gold == "insert" and gold is not None and not any(c.is_gold for c in top):
            others = top[: k - 1]
            top = _insert(others, gold, _rng(self.seed, question, "insert").randint(0, len(others)))
        return PlacedContexts(tuple(self._order(question, top)), 0, provenance).with_position()

    def _order(self, question: Question, contexts: list[Context]) -> list[Context]:
        gold = next((c for c in contexts if c.is_gold), None)
        if gold is None or self.order == "retrieved":
            return contexts
        rest = [c for c in contexts if c is not gold]
        match self.order:
            case "first":
                index = 0
            case "last":
                index = len(rest)
            case "random":
                index = _rng(self.seed, question, "order").randint(0, len(rest))
            case position:
                index = min(position - 1, len(rest))
        return _insert(rest, gold, index)


def _insert(contexts: Sequence[Context], gold: Context, index: int) -> list[Context]:
    return [*contexts[:index], gold, *contexts[index:]]


def _rng(seed: int, question: Question, purpose: str) -> random.Random:
    return random.Random(f"{seed}/{purpose}/{question.question_id}")
