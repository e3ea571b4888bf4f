"""A search engine that serves the Search requests of strategies from a local index and its corpus."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from winnow.errors import ConfigError
from winnow.identity.markers import SpeedOnly
from winnow.protocols import Searcher
from winnow.records import Pages, Passage, Question, Request, Result, Search


@dataclass
class LocalSearch:
    """A search engine that serves Search requests with the passages of a corpus.

    Args:
        searcher: Function that opens the index. It is called before the first search.
        passages: Function that returns the passages of the corpus by id. It is called before the first search.
        identity: Identity of index and corpus. The ledger, which is the store of finished model calls, uses it as a key.
        capacity: Number of requests that are worth submitting at once.

    """

    revision: ClassVar[int] = 2
    software: ClassVar[str] = ""
    remote: ClassVar[bool] = False
    reuses_prefixes: ClassVar[bool] = False

    searcher: Callable[[], Searcher]
    passages: Callable[[], Mapping[str, Passage]]
    identity: str
    capacity: Annotated[int, SpeedOnly("the batch size does not affect the results of a query")] = 256
    _pending: list[Search] = field(default_factory=list, repr=False)
    _opened: tuple[Searcher, Mapping[str, Passage]] | None = field(default=None, repr=False)

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the only kind of request that is served, Search."""
        return (Search,)

    def explain_refusal(self, request: Request) -> str | None:
        """Return why a request cannot be served, or None if it can be."""
        if isinstance(request, Search) and (not request.query.strip() or request.n < 1):
            return f"a search needs a query that is not empty and an n of at least 1; received {request!r}."
        return None

    def check(self) -> None:
        """Do nothing, because the index is only opened before the first search."""

    def close(self) -> None:
        """Release the index."""
        self._opened = None

    def fits(self, request: Request) -> bool:  # noqa: ARG002 (the protocol)
        """Return True, because the length of queries is not limited."""
        return True

    def count_tokens(self, request: Request) -> int:
        """Return the length of the query in characters, because queries are not tokenized here."""
        return len(_require_search(request).query)

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests until the next call of `collect`."""
        self._pending += [_require_search(request) for request in requests]

    def collect(self, timeout: float) -> Sequence[tuple[Request, Result]]:  # noqa: ARG002 (the search runs in this process)
        """Search for all pending queries.

        Only queries with equal `n` are searched together, because the ranking of a hybrid retriever depends on its depth.
        """
        batch, self._pending = self._pending, []
        if not batch:
            return []
        if self._opened is None:
            self._opened = self.searcher(), self.passages()
        searcher, passages = self._opened
        results: list[tuple[Request, Result]] = []
        for n in sorted({request.n for request in batch}):
            requests = [request for request in batch if request.n == n]
            queries = [Question(str(index), request.query, ("",)) for index, request in enumerate(requests)]
            for request, hits in zip(requests, searcher.search(queries, n), strict=True):
                results.append((request, Pages(tuple(passages[hit.passage_id] for hit in hits))))
        return results


def _require_search(request: Request) -> Search:
    """Return the request if it is a Search, else raise ConfigError."""
    if not isinstance(request, Search):
        raise ConfigError(f"A search engine only serves Search requests; received a {type(request).__name__} request.")
    return request
