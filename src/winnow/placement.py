"""Placement: which k contexts go into the prompt, in which order, and where the gold passage stands.

Rules (written down once): `keep` leaves the top k as retrieved; `insert` puts a missing gold passage in the place of
the k-th; `remove` takes gold passages out and refills from below. Then `order` moves the gold passage: `first`,
`last`, `random` (seeded by question), a 1-based position, or `retrieved` (left where it is). An inserted gold passage
stands at a seeded random position under `retrieved` (Post-Fusion paper, section 4).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from winnow.errors import ConfigError
from winnow.records import Context, Placed, Provenance, Question

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
        named = self.order in ("retrieved", "first", "last", "random")
        if not named and not (isinstance(self.order, int) and self.order >= 1):
            raise ConfigError(
                f"placement.order must be retrieved, first, last, random or a position from 1; received {self.order!r}."
            )

    def place(self, question: Question, contexts: Sequence[Context], k: int) -> Placed:
        """Return k contexts of a question (fewer if the ranking is shorter) in prompt order.

        Args:
            question: decides the seed of random positions.
            contexts: the ranking, best first; gold passages are marked, a gold that was not retrieved has rank 0.
            k: how many to show.

        Raises:
            ConfigError: if the position asked for lies beyond k.

        """
        if isinstance(self.order, int) and self.order > k:
            raise ConfigError(f"placement.order={self.order} lies beyond k={k}; use a position from 1 to k.")
        ranked = [c for c in contexts if c.rank > 0]
        gold = next((c for c in ranked if c.is_gold), None) or next((c for c in contexts if c.is_gold), None)
        provenance = gold_provenance(question, contexts)
        if self.gold == "remove":
            ranked = [c for c in ranked if not c.is_gold]
        shown = ranked[:k]
        if self.gold == "insert" and gold is not None and not any(c.is_gold for c in shown):
            shown = _at(shown[: k - 1], gold, self._inserted(question, len(shown[: k - 1])))
        return Placed(tuple(self._ordered(question, shown)), 0, provenance).with_position()

    def _inserted(self, question: Question, others: int) -> int:
        return _rng(self.seed, question, "insert").randint(0, others)

    def _ordered(self, question: Question, shown: list[Context]) -> list[Context]:
        gold = next((c for c in shown if c.is_gold), None)
        if gold is None or self.order == "retrieved":
            return shown
        rest = [c for c in shown if c is not gold]
        match self.order:
            case "first":
                index = 0
            case "last":
                index = len(rest)
            case "random":
                index = _rng(self.seed, question, "order").randint(0, len(rest))
            case position:
                index = min(position - 1, len(rest))
        return _at(rest, gold, index)


def mark_gold(question: Question, contexts: Sequence[Context]) -> tuple[Context, ...]:
    """Mark the gold passages: the annotated ones, or else the best-ranked context that has the answer (distant)."""
    annotated = set(question.gold_passage_ids)
    if annotated:
        return tuple(replace(c, is_gold=c.passage.passage_id in annotated) for c in contexts)
    first = next((c for c in contexts if c.has_answer), None)
    return tuple(replace(c, is_gold=c is first) for c in contexts)


def gold_provenance(question: Question, contexts: Sequence[Context]) -> Provenance:
    """Say how the gold passage of a question is known."""
    if not any(c.is_gold for c in contexts):
        return "none"
    return "annotated" if question.gold_passage_ids else "distant"


def _at(contexts: Sequence[Context], gold: Context, index: int) -> list[Context]:
    return [*contexts[:index], gold, *contexts[index:]]


def _rng(seed: int, question: Question, purpose: str) -> random.Random:
    return random.Random(f"{seed}/{purpose}/{question.question_id}")
