"""Placement: which k contexts the prompt shows, in which order, and at which position the gold passage is.

`gold` selects the contexts. `keep` takes the top k as retrieved. `insert` replaces the k-th context by the gold passage if the
top k do not include it. `remove` skips gold passages and takes the next contexts instead.

`order` then moves the gold passage: to the `first`, the `last` or a `random` position (seeded by question), or to a given
position, counted from 1. If several gold passages are annotated, only the best-ranked one stays in the prompt, and the next
contexts take the places of the others, so that the position is that of the only gold passage.

`retrieved` moves nothing; an inserted gold passage is then at a seeded random position (Post-Fusion paper, section 4).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from winnow.contexts.gold import gold_provenance
from winnow.errors import ConfigError
from winnow.records import Context, PlacedContexts, Question

Order = Literal["retrieved", "first", "last", "random"] | int
Gold = Literal["keep", "insert", "remove"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Rules that select and order the contexts of a prompt. `seed` affects only random positions."""

    revision: ClassVar[int] = 2

    gold: Gold = "keep"
    order: Order = "retrieved"
    seed: int = 13

    def __post_init__(self) -> None:
        """Raise ConfigError if a rule is unknown."""
        if self.gold not in ("keep", "insert", "remove"):
            raise ConfigError(f"placement.gold must be keep, insert or remove; received {self.gold!r}.")
        is_named = self.order in ("retrieved", "first", "last", "random")
        if not is_named and not (isinstance(self.order, int) and self.order >= 1):
            raise ConfigError(
                f"placement.order must be retrieved, first, last, random or a position from 1; received {self.order!r}."
            )

    def place(self, question: Question, contexts: Sequence[Context], k: int) -> PlacedContexts:
        """Select k contexts of a question, or fewer if the ranking is shorter, and put them in prompt order.

        Args:
            question: Question, whose id is part of the seed of random positions.
            contexts: Contexts, best first, with gold passages marked; those that were not retrieved have rank 0.
            k: Number of contexts that the prompt shows.

        Raises:
            ConfigError: If `order` is a position beyond k.

        """
        if isinstance(self.order, int) and self.order > k:
            raise ConfigError(f"placement.order={self.order} is beyond k={k}; use a position from 1 to k.")
        ranked = [c for c in contexts if c.rank > 0]
        gold = next((c for c in ranked if c.is_gold), None) or next((c for c in contexts if c.is_gold), None)
        provenance = gold_provenance(question, contexts)
        if self.gold == "remove":
            ranked = [c for c in ranked if not c.is_gold]
        elif self.order != "retrieved":
            ranked = [c for c in ranked if c is gold or not c.is_gold]
        top = ranked[:k]
        if self.gold == "insert" and gold is not None and not any(c.is_gold for c in top):
            others = top[: k - 1]
            top = _insert(others, gold, _rng(self.seed, question, "insert").randint(0, len(others)))
        return PlacedContexts(tuple(self._order(question, top)), 0, provenance).with_position()

    def _order(self, question: Question, contexts: list[Context]) -> list[Context]:
        gold = next((c for c in contexts if c.is_gold), None)
        if gold is None or self.order == "retrieved":
            return contexts
        others = [c for c in contexts if c is not gold]
        match self.order:
            case "first":
                index = 0
            case "last":
                index = len(others)
            case "random":
                index = _rng(self.seed, question, "order").randint(0, len(others))
            case position:
                index = min(position - 1, len(others))
        return _insert(others, gold, index)


def _insert(contexts: Sequence[Context], gold: Context, index: int) -> list[Context]:
    return [*contexts[:index], gold, *contexts[index:]]


def _rng(seed: int, question: Question, purpose: str) -> random.Random:
    return random.Random(f"{seed}/{purpose}/{question.question_id}")
