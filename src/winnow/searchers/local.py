"""A search engine over an index on this machine: a retriever and its corpus serve Search requests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from winnow.errors import ConfigError
from winnow.protocols import Searcher
from winnow.records import Pages, Passage, Question, Request, Result, Search


@dataclass
class LocalSearch:
    """Serves Search requests with passages.

    Args:
        searcher: opens the index; called on first use.
        passages: opens the corpus by passage id; called on first use.
        identity: names index and corpus in the ledger.
        capacity: queries searched together.

    """

    speed_only: ClassVar[Mapping[str, str]] = {"capacity": "how many queries are searched together"}

    searcher: Callable[[], Searcher]
    passages: Callable[[], Mapping[str, Passage]]
    identity: str
    capacity: int = 256
    _pending: list[Search] = field(default_factory=list, repr=False)
    _opened: tuple[Searcher, Mapping[str, Passage]] | None = field(default=None, repr=False)

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return Search."""
        return (Search,)

    def refusal(self, request: Request) -> str | None:
        """Return why a request cannot be served: it needs a query and at least one result."""
        if isinstance(request, Search) and (not request.query.strip() or request.n < 1):
            return f"a search needs a query and n of 1 or more; received {request!r}."
        return None

    def check(self) -> None:
        """Pass: the index is opened on first use."""

    def close(self) -> None:
        """Release the index."""
        self._opened = None

    def fits(self, request: Request) -> bool:  # noqa: ARG002 (the protocol)
        """Return True: queries have no limit."""
        return True

    def size(self, request: Request) -> int:
        """Return the query's length in characters."""
        return len(_search(request).query)

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests."""
        self._pending += [_search(request) for request in requests]

    def collect(self, timeout: float) -> Sequence[tuple[Request, Result]]:  # noqa: ARG002 (it computes, nothing is awaited)
        """Search for all pending queries, those of equal `n` together: a fused ranking depends on its depth."""
        batch, self._pending = self._pending, []
        if not batch:
            return []
        if self._opened is None:
            self._opened = self.searcher(), self.passages()
        searcher, passages = self._opened
        results: list[tuple[Request, Result]] = []
        for n in sorted({request.n for request in batch}):
            requests = [request for request in batch if request.n == n]
            queries = [Question(str(number), request.query, ("",)) for number, request in enumerate(requests)]
            for request, hits in zip(requests, searcher.search(queries, n), strict=True):
                results.append((request, Pages(tuple(passages[hit.passage_id] for hit in hits))))
        return results


def _search(request: Request) -> Search:
    if not isinstance(request, Search):
        raise ConfigError(f"A search engine serves Search requests; received {type(request).__name__}.")
    return request
