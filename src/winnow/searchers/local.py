"""A search engine that serves Search requests from a local index and its corpus."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from winnow.errors import ConfigError
from winnow.protocols import Searcher
from winnow.records import Pages, Passage, Question, Request, Result, Search


@dataclass
class LocalSearch:
    """Serves Search requests with the passages of a corpus.

    Args:
        searcher: Function that opens the index; called on first use.
        passages: Function that opens the corpus, a mapping of passage ids to passages; called on first use.
        identity: Identity of index and corpus, under which the ledger stores results.
        capacity: Number of queries to search together.

    """

    revision: ClassVar[int] = 1
    speed_only: ClassVar[Mapping[str, str]] = {"capacity": "the batch size does not affect the results of a query"}

    searcher: Callable[[], Searcher]
    passages: Callable[[], Mapping[str, Passage]]
    identity: str
    capacity: int = 256
    _pending: list[Search] = field(default_factory=list, repr=False)
    _opened: tuple[Searcher, Mapping[str, Passage]] | None = field(default=None, repr=False)

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the only kind of request that it serves, Search."""
        return (Search,)

    def refusal(self, request: Request) -> str | None:
        """Return why a request cannot be served, or None if it can. A search needs a query and an `n` of at least 1."""
        if isinstance(request, Search) and (not request.query.strip() or request.n < 1):
            return f"a search needs a query and n of 1 or more; received {request!r}."
        return None

    def check(self) -> None:
        """Check nothing, because the index is opened on first use."""

    def close(self) -> None:
        """Release the index."""
        self._opened = None

    def fits(self, request: Request) -> bool:  # noqa: ARG002 (the protocol)
        """Return True, because the length of queries is not limited."""
        return True

    def size(self, request: Request) -> int:
        """Return the query's length in characters."""
        return len(_search(request).query)

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests."""
        self._pending += [_search(request) for request in requests]

    def collect(self, timeout: float) -> Sequence[tuple[Request, Result]]:  # noqa: ARG002 (the search runs in this process)
        """Search for all pending queries. Those of equal `n` are searched together: a fused ranking depends on its depth."""
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
