"""Damage: worsen a retriever step by step by replacing relevant contexts with irrelevant ones."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from winnow.contexts.gold import determine_provenance, is_relevant
from winnow.contexts.placed import PlacedContexts
from winnow.identity.values import check_values
from winnow.records import Context, Question


@dataclass(frozen=True, slots=True)
class Damage:
    """A rule that replaces a share of the relevant top-k contexts with irrelevant ones beyond k.

    A context is relevant if it is a gold passage or contains an answer. What a smaller share
    replaces, a larger one replaces too. A relevant context keeps its place if no irrelevant one is
    left.

    Args:
        share: Share of the relevant contexts that are replaced, on average over questions; from 0
            to 1.
        seed: Seed of the choice.
    """

    revision: ClassVar[int] = 2

    share: Annotated[float, Ge(0), Le(1)] = 0.5
    seed: Annotated[int, Ge(0)] = 13

    def __post_init__(self) -> None:
        check_values("placement", self)

    @property
    def uses_gold(self) -> bool:
        """Return whether contexts that the labels mark as relevant may be replaced."""
        return self.share > 0

    @property
    def moves_gold(self) -> bool:
        """Return False: a gold passage that stays keeps its rank."""
        return False

    @property
    def words(self) -> str:
        """Return the rule in words, which follow those for the passages of a prompt."""
        return (
            f"with {100 * self.share:g} % of the relevant ones replaced"
            if self.share
            else "as retrieved"
        )

    def place(self, question: Question, contexts: Sequence[Context], k: int) -> PlacedContexts:
        """Select k contexts (fewer if the ranking is shorter), and replace relevant ones."""
        ranking = [context for context in contexts if context.rank > 0]
        spare = [context for context in ranking[k:] if not is_relevant(context)]
        draws = {
            position: (
                random.Random(
                    f"{self.seed}/damage/{question.question_id}/{context.passage.passage_id}"
                ).random()
            )
            for position, context in enumerate(ranking[:k])
            if is_relevant(context)
        }
        positions = sorted(
            position
            for position in sorted(draws, key=draws.__getitem__)[: len(spare)]
            if draws[position] < self.share
        )
        placed_contexts = ranking[:k]
        for position, context in zip(positions, spare, strict=False):
            placed_contexts[position] = context
        return PlacedContexts(
            tuple(placed_contexts), 0, determine_provenance(question, contexts)
        ).with_gold_position()
