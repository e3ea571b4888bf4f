"""Searches between rounds."""

from collections.abc import Iterable
from dataclasses import dataclass

from winnow.records import Context, Passage
from winnow.requests import BUDGET, Failed, Plan, Search


@dataclass(frozen=True, slots=True)
class Found:
    """What a search gave.

    Attributes:
        passages: Passages, best first.
        problem: Why there are none, or "".

    """

    passages: tuple[Passage, ...] = ()
    problem: str = ""

    @property
    def is_over_budget(self) -> bool:
        """Return whether nothing was searched for, because the question's budget of searches is
        spent.
        """
        return self.problem == BUDGET


def search(query: str, n: int) -> Plan[Found]:
    """Search for the `n` best passages. A query without text is not searched for, and a search that
    fails finds nothing.
    """
    query = " ".join(query.split())
    if not query:
        return Found(problem="empty query")
    (result,) = yield [Search(query, n)]
    if isinstance(result, Failed):
        return Found(
            problem=BUDGET if result.reason == BUDGET else f"search failed: {result.reason[:100]}"
        )
    return Found(result.passages, "" if result.passages else "nothing found")


def build_contexts(passages: Iterable[Passage], start: int = 1) -> list[Context]:
    """Return found passages as contexts, with ranks from `start`. A prompt that is too long loses
    the last ranks first.
    """
    return [
        Context(passage, rank, None, has_answer=False)
        for rank, passage in enumerate(passages, start)
    ]
