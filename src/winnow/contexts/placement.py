"""Placement: the k contexts of the prompt, their order, and the position of the gold passage.

The rule `gold` selects the contexts. `keep` takes the top k as retrieved. `insert` replaces the
k-th context by the gold passage if the top k do not include it. `insert_all` does so for every
annotated gold passage, as questions of several hops need. `remove` skips gold passages and takes
the next contexts instead.

The rule `order` then moves the gold passage to the `first`, the `last` or a `random` position, or
to a given position, counted from 1. If several gold passages are annotated, only the best-ranked
one stays in the prompt. The next contexts replace the others, so that the prompt contains a single
gold passage. `insert_all` keeps all of them and moves them together. With the order `retrieved`, no
context is moved, and an inserted gold passage is at a random position (Post-Fusion paper, section
4). The order `shuffled` puts the same contexts, with a single gold passage too, in a random order,
which is the baseline of a study of positions, and `reversed` puts the best-ranked one last.

Random positions and orders depend on the seed and on the question.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from winnow.contexts.gold import determine_provenance
from winnow.contexts.placed import PlacedContexts
from winnow.errors import ConfigError, check_choice
from winnow.records import Context, Question

Order = Literal["retrieved", "reversed", "first", "last", "random", "shuffled"] | int
Gold = Literal["keep", "insert", "insert_all", "remove"]
Draw = Callable[[str], random.Random]
"""A function that returns the random numbers of a question for a purpose."""
Contexts = Sequence[Context]


@dataclass(frozen=True, slots=True)
class _Arrangement:
    """What an order does: everything that depends on which one it is.

    Attributes:
        words: The order in words.
        arrange: Function that puts contexts in order, given which of them are the gold passages
            that move together.
        of_all: Whether it orders all contexts alike, rather than moving the gold passages.
        by_rank: Whether it depends on the ranks alone, so that no gold passage is looked for.
    """

    words: str
    arrange: Callable[[Contexts, Contexts, Draw], Contexts]
    of_all: bool = False
    by_rank: bool = False


def _move(find_index: Callable[[int, Draw], int]) -> Callable[[Contexts, Contexts, Draw], Contexts]:
    """Return a function that puts moved contexts among n others at index `find_index(n, draw)`."""

    def arrange(contexts: Contexts, moved: Contexts, draw: Draw) -> Contexts:
        others = [context for context in contexts if not any(context is one for one in moved)]
        index = find_index(len(others), draw)
        return [*others[:index], *moved, *others[index:]]

    return arrange


_ARRANGEMENTS = {
    "retrieved": _Arrangement(
        "as retrieved", lambda contexts, *_: contexts, of_all=True, by_rank=True
    ),
    "reversed": _Arrangement(
        "in reverse order", lambda contexts, *_: contexts[::-1], of_all=True, by_rank=True
    ),
    "shuffled": _Arrangement(
        "in random order",
        lambda contexts, _, draw: draw("shuffle").sample(contexts, len(contexts)),
        of_all=True,
    ),
    "first": _Arrangement("first", _move(lambda _, __: 0)),
    "last": _Arrangement("last", _move(lambda num_others, _: num_others)),
    "random": _Arrangement(
        "at a random position", _move(lambda num_others, draw: draw("order").randint(0, num_others))
    ),
}
"""Each named order."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Rules that select and order the contexts of a prompt.

    Args:
        gold: Whether to keep, insert or remove the gold passage, or to insert all gold passages of
            the question.
        order: Position of the gold passage: "retrieved", "first", "last", "random" or a number,
            counted from 1; "reversed" and "shuffled" put all contexts in the reverse of the
            retrieved order and in a random order.
        seed: Seed of random positions and orders.
    """

    revision: ClassVar[int] = 2

    gold: Gold = "keep"
    order: Order = "retrieved"
    seed: Annotated[int, Ge(0)] = 13

    def __post_init__(self) -> None:
        check_choice("placement.rule.gold", self.gold, Gold)
        if self.order not in _ARRANGEMENTS and not (type(self.order) is int and self.order >= 1):
            raise ConfigError(
                f"placement.rule.order must be {', '.join(_ARRANGEMENTS)} or a position from 1; "
                f"received {self.order!r}."
            )

    @property
    def _arrangement(self) -> _Arrangement:
        if isinstance(self.order, int):
            position = self.order
            return _Arrangement(f"at position {position}", _move(lambda *_: position - 1))
        return _ARRANGEMENTS[self.order]

    @property
    def uses_gold(self) -> bool:
        """Return whether the contexts or their order depend on which of them are gold passages."""
        return self.gold != "keep" or not self._arrangement.by_rank  # of several, one stays

    @property
    def moves_gold(self) -> bool:
        """Return whether the position of the gold passage says nothing of its rank."""
        return self.gold != "remove" and not self._arrangement.by_rank

    @property
    def words(self) -> str:
        """Return the rules in words, which follow those for the passages of a prompt."""
        own, is_as_retrieved = self._arrangement, self.order == "retrieved"
        orders_others = own.of_all and not is_as_retrieved
        if self.gold == "keep":
            return (
                own.words
                if own.of_all
                else f"with the gold passage {own.words} if it was retrieved"
            )
        if self.gold == "remove":
            return f"without the gold passage{f', {own.words}' if orders_others else ''}"
        which = "all gold passages" if self.gold == "insert_all" else "the gold passage"
        if orders_others:
            return f"{own.words} with {which} among them"
        return f"with {which} {'inserted' if is_as_retrieved else own.words}"

    def place(self, question: Question, contexts: Contexts, k: int) -> PlacedContexts:
        """Select k contexts (fewer if the ranking is shorter) and put them in prompt order.

        Args:
            question: Question to which the contexts belong. Its id is part of the seed of random
                positions.
            contexts: Contexts, best first, with gold passages marked. Contexts that were not
                retrieved have rank 0.
            k: Number of contexts in the prompt.

        Raises:
            ConfigError: If `order` is a position beyond k, or if all of more than k gold passages
                are inserted.
        """
        if isinstance(self.order, int) and self.order > k:
            raise ConfigError(
                f"placement.rule.order={self.order} is beyond k={k}; use a position from 1 to k."
            )
        ranking = [context for context in contexts if context.rank > 0]
        gold_context = _find_gold(ranking) or _find_gold(contexts)
        provenance = determine_provenance(question, contexts)
        if self.gold == "insert_all":
            placed_contexts = self._place_all(question, contexts, k)
            return PlacedContexts(tuple(placed_contexts), 0, provenance).with_gold_position()
        if self.gold == "remove":
            ranking = [context for context in ranking if not context.is_gold]
        elif not self._arrangement.by_rank:
            ranking = [
                context for context in ranking if context is gold_context or not context.is_gold
            ]
        top = ranking[:k]
        if k and self.gold == "insert" and gold_context is not None and _find_gold(top) is None:
            others = top[: k - 1]
            index = self._draw_index(question, "insert", len(others))
            top = [*others[:index], gold_context, *others[index:]]
        moved_contexts = [context for context in top if context is _find_gold(top)]
        placed_contexts = self._arrangement.arrange(
            top, moved_contexts, partial(self._draw, question)
        )
        return PlacedContexts(tuple(placed_contexts), 0, provenance).with_gold_position()

    def _place_all(self, question: Question, contexts: Contexts, k: int) -> Contexts:
        """Select all gold passages and the best-ranked other contexts, and put them in order."""
        gold = [context for context in contexts if context.is_gold]
        if len(gold) > k:
            raise ConfigError(
                f"placement.rule.gold=insert_all: question {question.question_id!r} has "
                f"{len(gold)} gold passages, and k={k}. Raise k."
            )
        if isinstance(self.order, int) and self.order + len(gold) - 1 > k:
            raise ConfigError(
                f"placement.rule.order={self.order}: question {question.question_id!r} has "
                f"{len(gold)} gold passages, which do not fit from that position into k={k}."
            )
        others = [context for context in contexts if context.rank > 0 and not context.is_gold]
        selection = [*gold, *others[: k - len(gold)]]
        if self._arrangement.by_rank:
            selection = self._sort(question, selection)
        return self._arrangement.arrange(selection, gold, partial(self._draw, question))

    def _sort(self, question: Question, contexts: Contexts) -> list[Context]:
        """Put contexts in the retrieved order; others are at random positions."""
        placed_contexts = sorted(
            (one for one in contexts if one.rank > 0), key=lambda one: one.rank
        )
        for number, context in enumerate(one for one in contexts if one.rank == 0):
            placed_contexts.insert(
                self._draw_index(question, f"insert {number}", len(placed_contexts)), context
            )
        return placed_contexts

    def _draw_index(self, question: Question, purpose: str, num_others: int) -> int:
        """Draw a position among other contexts."""
        return self._draw(question, purpose).randint(0, num_others)

    def _draw(self, question: Question, purpose: str) -> random.Random:
        """Create a random generator that depends on the seed, the question and the purpose."""
        return random.Random(f"{self.seed}/{purpose}/{question.question_id}")


def _find_gold(contexts: Contexts) -> Context | None:
    return next((context for context in contexts if context.is_gold), None)
