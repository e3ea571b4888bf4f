"""A search engine that serves the Search requests of strategies from a local index and corpus."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from winnow.errors import ConfigError
from winnow.identity.markers import SpeedOnly
from winnow.protocols import Searcher, VectorSearcher
from winnow.records import Hit, Passage, Question
from winnow.requests import Pages, Request, Result, Search


@dataclass
class LocalSearch:
    """A search engine that serves Search requests with the passages of a corpus.

    Args:
        searcher: Function that opens the index. It is called before the first search.
        passages: Function that returns the passages of the corpus by id. It is called before the
            first search.
        identity: Identity of index and corpus. The ledger, which is the store of finished model
            calls, uses it as a key.
        capacity: Number of requests that are worth submitting at once.
        changed: Function that returns what passages become, by their ids, in a corpus that is
            damaged: None for one that is not found. It is called before the first search; None for
            a corpus as it is.
    """

    revision: ClassVar[int] = 3
    software: ClassVar[str] = ""
    reuses_prefixes: ClassVar[bool] = False

    searcher: Callable[[], Searcher]
    passages: Callable[[], Mapping[str, Passage]]
    identity: str
    capacity: Annotated[int, SpeedOnly("the batch size does not affect the results of a query")] = (
        256
    )
    changed: Callable[[], Mapping[str, Passage | None]] | None = None
    _pending: list[Search] = field(default_factory=list, repr=False)
    _opened: tuple[Searcher, Mapping[str, Passage], Mapping[str, Passage | None]] | None = field(
        default=None, repr=False
    )

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the only kind of request that is served, Search."""
        return (Search,)

    def explain_refusal(self, request: Request) -> str | None:
        """Return why a request cannot be served, or None if it can be."""
        if isinstance(request, Search) and (not request.query.strip() or request.n < 1):
            return (
                "a search needs a query that is not empty and an n of at least 1; received "
                f"{request!r}."
            )
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

        Only queries with equal `n` are searched together, because the ranking of a hybrid retriever
        depends on its depth.

        Raises:
            ConfigError: If vectors are to be averaged, and the index has none.
        """
        batch, self._pending = self._pending, []
        if not batch:
            return []
        if self._opened is None:
            self._opened = self.searcher(), self.passages(), self.changed() if self.changed else {}
        searcher, passages, changes = self._opened
        removed_ids = {passage_id for passage_id, passage in changes.items() if passage is None}
        results: list[tuple[Request, Result]] = []
        for n, is_averaged in sorted({(request.n, bool(request.averaged)) for request in batch}):
            requests = [
                request
                for request in batch
                if (request.n, bool(request.averaged)) == (n, is_averaged)
            ]
            rankings = _search(searcher, requests, n, removed_ids, is_averaged=is_averaged)
            for request, hits in zip(requests, rankings, strict=True):
                contents = tuple(
                    changes.get(hit.passage_id) or passages[hit.passage_id] for hit in hits
                )
                results.append((request, Pages(contents, scores=tuple(hit.score for hit in hits))))
        return results


def _search(
    searcher: Searcher,
    requests: Sequence[Search],
    n: int,
    removed: Collection[str],
    *,
    is_averaged: bool,
) -> list[list[Hit]]:
    """Return the best `n` hits of each request that are not removed, searching deeper if needed."""
    rankings: list[list[Hit]] = [[]] * len(requests)
    pending, depth = list(range(len(requests))), n
    while pending:
        deeper = _search_at(
            [requests[number] for number in pending], searcher, depth, is_averaged=is_averaged
        )
        short = []
        for number, hits in zip(pending, deeper, strict=True):
            rankings[number] = [hit for hit in hits if hit.passage_id not in removed][:n]
            if len(rankings[number]) < n and len(hits) == depth:
                short.append(number)
        pending, depth = short, 2 * depth
    return rankings


def _search_at(
    requests: Sequence[Search], searcher: Searcher, n: int, *, is_averaged: bool
) -> list[list[Hit]]:
    if not is_averaged:
        # an id that no data set has, and that is the same in every batch
        return searcher.search(
            [Question(f"query {one.query!r}", one.query, ("",)) for one in requests], n
        )
    if not isinstance(searcher, VectorSearcher):
        raise ConfigError(
            "The plan averages the vectors of texts, as HyDE does, and the retriever has no "
            "vectors. Choose a dense one, such as retriever=hyde, or write the texts into the "
            "query."
        )
    return searcher.search_averages([(one.query, one.averaged) for one in requests], n)


def _require_search(request: Request) -> Search:
    """Return the request if it is a Search, else raise ConfigError."""
    if not isinstance(request, Search):
        raise ConfigError(
            f"A search engine only serves Search requests; received a {type(request).__name__} "
            "request."
        )
    return request
