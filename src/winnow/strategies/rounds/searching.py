"""Searches between rounds."""

from dataclasses import dataclass

from winnow.records import Context, Passage
from winnow.requests import BUDGET, Failed, PlacedPages, Plan, Search


@dataclass(frozen=True, slots=True)
class Found:
    """What a search gave.

    Attributes:
        passages: Passages in the order in which a prompt shows them.
        problem: Why there are none, or "".
        ranks: Ranks of the passages if the cell places them, or () if they are in order.
        gold: Whether each is a gold passage if the cell places them, or ().
    """

    passages: tuple[Passage, ...] = ()
    problem: str = ""
    ranks: tuple[int, ...] = ()
    gold: tuple[bool, ...] = ()

    @property
    def is_over_budget(self) -> bool:
        """Return whether no search was made because the question's search budget is spent."""
        return self.problem == BUDGET


def search(query: str, n: int) -> Plan[Found]:
    """Search for the `n` best passages; an empty query or a failed search finds nothing."""
    query = " ".join(query.split())
    if not query:
        return Found(problem="empty query")
    (result,) = yield [Search(query, n)]
    if isinstance(result, Failed):
        return Found(
            problem=BUDGET if result.reason == BUDGET else f"search failed: {result.reason[:100]}"
        )
    problem = "" if result.passages else "nothing found"
    if isinstance(result, PlacedPages):
        return Found(result.passages, problem, result.ranks, result.gold)
    return Found(result.passages, problem)


def build_contexts(found: Found, start: int = 1) -> list[Context]:
    """Return found passages as contexts, with ranks from `start`. A prompt that is too long loses
    the last ranks first, and gold passages last.
    """
    ranks = found.ranks or range(1, len(found.passages) + 1)
    gold = found.gold or (False,) * len(found.passages)
    return [
        Context(passage, start - 1 + rank, None, has_answer=False, is_gold=is_gold)
        for passage, rank, is_gold in zip(found.passages, ranks, gold, strict=True)
    ]
