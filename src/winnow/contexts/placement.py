"""Placement: which k contexts the prompt contains, in which order, and at which position the gold
passage is.

The rule `gold` selects the contexts. `keep` takes the top k as retrieved. `insert` replaces the
k-th context by the gold passage if the top k do not include it. `insert_all` does so for every
annotated gold passage, as questions of several hops need. `remove` skips gold passages and takes
the next contexts instead.

The rule `order` then moves the gold passage to the `first`, the `last` or a `random` position, or
to a given position, counted from 1. If several gold passages are annotated, only the best-ranked
one stays in the prompt. The next contexts replace the others, so that the prompt contains a single
gold passage. `insert_all` keeps all of them and moves them together. With the order `retrieved`, no
context is moved, and an inserted gold passage is at a random position (Post-Fusion paper, section
4). The order `shuffled` puts all contexts in a random order, which is the baseline of a study of
positions, and `reversed` puts the best-ranked one last.

Random positions and orders depend on the seed and on the question.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, get_args

from annotated_types import Ge

from winnow.contexts.gold import determine_provenance
from winnow.contexts.placed import PlacedContexts
from winnow.errors import ConfigError
from winnow.records import Context, Question

Order = Literal["retrieved", "reversed", "first", "last", "random", "shuffled"] | int
Gold = Literal["keep", "insert", "insert_all", "remove"]
_BY_RANK = ("retrieved", "reversed")
"""Orders that move no single passage."""
_OF_ALL = ("retrieved", "reversed", "shuffled")
"""Orders of all passages."""


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
        """Raise ConfigError if a rule is unknown."""
        if self.gold not in get_args(Gold):
            raise ConfigError(
                f"placement.rule.gold must be one of {', '.join(get_args(Gold))}; received "
                f"{self.gold!r}."
            )
        is_named = self.order in ("retrieved", "reversed", "first", "last", "random", "shuffled")
        if not is_named and not (isinstance(self.order, int) and self.order >= 1):
            raise ConfigError(
                "placement.rule.order must be retrieved, reversed, first, last, random, shuffled "
                f"or a position from 1; received {self.order!r}."
            )

    @property
    def uses_gold(self) -> bool:
        """Return whether the contexts or their order depend on which of them are gold passages."""
        return (
            self.gold != "keep" or self.order not in _BY_RANK
        )  # a moved gold passage is the only one that is kept

    @property
    def words(self) -> str:
        """Return the rules in words, which follow those for the passages of a prompt."""
        match self.order:
            case "retrieved":
                order = "as retrieved" if self.gold == "keep" else ""
            case "shuffled":
                order = "in random order"
            case "reversed":
                order = "in reverse order"
            case "first" | "last":
                order = self.order
            case "random":
                order = "at a random position"
            case position:
                order = f"at position {position}"
        if self.gold == "keep":
            return (
                order
                if self.order in _OF_ALL
                else f"with the gold passage {order} if it was retrieved"
            )
        if self.gold == "remove":
            return f"without the gold passage{f', {order}' if self.order in _OF_ALL[1:] else ''}"
        which = "all gold passages" if self.gold == "insert_all" else "the gold passage"
        return (
            f"{order} with {which} among them"
            if self.order in _OF_ALL[1:]
            else f"with {which} {order or 'inserted'}"
        )

    def place(self, question: Question, contexts: Sequence[Context], k: int) -> PlacedContexts:
        """Select k contexts of a question, or fewer if the ranking is shorter, and put them in
        prompt order.

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
        ranked = [context for context in contexts if context.rank > 0]
        gold_context = _find_gold(ranked) or _find_gold(contexts)
        provenance = determine_provenance(question, contexts)
        if self.gold == "insert_all":
            return PlacedContexts(
                tuple(self._place_all(question, contexts, k)), 0, provenance
            ).with_gold_position()
        if self.gold == "remove":
            ranked = [context for context in ranked if not context.is_gold]
        elif self.order not in _BY_RANK:
            ranked = [
                context for context in ranked if context is gold_context or not context.is_gold
            ]
        top = ranked[:k]
        if self.gold == "insert" and gold_context is not None and _find_gold(top) is None:
            others = top[: k - 1]
            index = _create_rng(self.seed, question, "insert").randint(0, len(others))
            top = _insert_context(others, gold_context, index)
        return PlacedContexts(
            tuple(self._arrange(question, top)), 0, provenance
        ).with_gold_position()

    def _place_all(self, question: Question, contexts: Sequence[Context], k: int) -> list[Context]:
        """Select all gold passages and the best-ranked other contexts, and put them in order."""
        gold = [context for context in contexts if context.is_gold]
        if len(gold) > k:
            raise ConfigError(
                f"placement.rule.gold=insert_all: question {question.question_id!r} has "
                f"{len(gold)} gold passages, and k={k}. Raise k."
            )
        others = [context for context in contexts if context.rank > 0 and not context.is_gold][
            : k - len(gold)
        ]
        match self.order:
            case "retrieved" | "reversed":
                retrieved = sorted(
                    [*others, *(c for c in gold if c.rank > 0)], key=lambda context: context.rank
                )
                for number, context in enumerate(context for context in gold if context.rank == 0):
                    index = _create_rng(self.seed, question, f"insert {number}").randint(
                        0, len(retrieved)
                    )
                    retrieved.insert(index, context)
                return retrieved if self.order == "retrieved" else retrieved[::-1]
            case "shuffled":
                return _create_rng(self.seed, question, "shuffle").sample(
                    [*gold, *others], len(gold) + len(others)
                )
            case _:
                index = self._find_index(question, len(others))
                return [*others[:index], *gold, *others[index:]]

    def _arrange(self, question: Question, contexts: list[Context]) -> list[Context]:
        """Move the gold passage, if there is one, to the position that `order` requires, or shuffle
        the contexts.
        """
        if self.order == "shuffled":
            return _create_rng(self.seed, question, "shuffle").sample(contexts, len(contexts))
        if self.order == "reversed":
            return contexts[::-1]
        gold_context = _find_gold(contexts)
        if gold_context is None or self.order == "retrieved":
            return contexts
        others = [context for context in contexts if context is not gold_context]
        return _insert_context(others, gold_context, self._find_index(question, len(others)))

    def _find_index(self, question: Question, num_others: int) -> int:
        """Return the index among the other contexts at which `order` puts the gold passage, or all
        of them together.
        """
        match self.order:
            case "first":
                return 0
            case "last":
                return num_others
            case "random":
                return _create_rng(self.seed, question, "order").randint(0, num_others)
            case "retrieved" | "reversed" | "shuffled":
                raise AssertionError(self.order)
            case position:
                return min(position - 1, num_others)


def _find_gold(contexts: Sequence[Context]) -> Context | None:
    return next((context for context in contexts if context.is_gold), None)


def _insert_context(contexts: Sequence[Context], inserted: Context, index: int) -> list[Context]:
    return [*contexts[:index], inserted, *contexts[index:]]


def _create_rng(seed: int, question: Question, purpose: str) -> random.Random:
    """Create a random number generator that depends on the seed, the question and the purpose of
    its numbers.
    """
    return random.Random(f"{seed}/{purpose}/{question.question_id}")
