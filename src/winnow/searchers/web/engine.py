"""A search engine of the web that serves the Search requests of strategies."""

import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_random_exponential

from winnow.errors import ConfigError, ReaderError, ServerUnavailableError, StoppedError
from winnow.formats.http import parse_retry_after
from winnow.identity.markers import SpeedOnly
from winnow.requests import Failed, Pages, Request, Result, Search, Snapshot
from winnow.searchers.web.apis import SearchApi, SearchResult
from winnow.searchers.web.identity import get_current_month
from winnow.searchers.web.pages import PageReader

_TIMEOUT = 20.0
"""Time for a reply of the API in seconds."""
_MAX_ATTEMPTS = 4
_MAX_WAIT = 60.0
"""Longest wait before a retry in seconds. If the API asks for a longer one, the search fails."""
_MIN_RESULTS = 10
"""Number of results that are requested at least, if pages of some domains are preferred."""
_MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")
_REJECTED = (400, 401, 403, 404)
"""HTTP status of a wrong key, address or parameter, which every other search would receive too."""


class _RetryError(Exception):
    """Raised when a failed search may succeed on retry; `after` is the wait the API asks for."""

    def __init__(self, reason: str, after: float = 0.0) -> None:
        """Store the reason and the time to wait in seconds."""
        super().__init__(reason)
        self.after = after


@dataclass
class WebSearch:
    """An engine that searches the web by a search engine's API and reads the pages that it finds.

    The ledger keeps the texts, so that a run is repeated without the web. A search has an age: it
    is stored under the month in which it was made, and searches of a past month are only replayed.
    A search that fails is stored too, and the strategy continues without it; `winnow ledger prune
    --failed` deletes such searches, so that they are repeated.

    Args:
        identity: Name under which the ledger stores the searches (see `name_web_search`).
        api: API of the search engine.
        pages: Reader of the pages.
        at: Month of the searches as "2026-11"; "auto" is the current month in UTC.
        prefer: Domains whose pages come first among the results, such as "wikipedia.org".
        max_concurrency: Number of searches at once.
        max_failures: Number of successive failures after which the run stops, since the quota or
            the network seems to be gone.

    Raises:
        ConfigError: If the month is none, or in the future.
    """

    revision: ClassVar[int] = 1
    software: ClassVar[str] = ""
    reuses_prefixes: ClassVar[bool] = False

    identity: str
    api: SearchApi
    pages: PageReader
    at: str = "auto"
    prefer: Sequence[str] = ()
    max_concurrency: Annotated[int, SpeedOnly("searches do not affect one another")] = 8
    max_failures: Annotated[
        int, SpeedOnly("it determines when a run stops, not what a search finds")
    ] = 20
    _running: dict[Future[Result], Search] = field(default_factory=dict, repr=False)
    _error: Exception | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        now = get_current_month()
        self.at = now if self.at == "auto" else self.at
        if not _MONTH.fullmatch(self.at) or self.at > now:
            raise ConfigError(
                f"search.at must be auto or a month up to now, as in {now}; received {self.at!r}."
            )
        if self.max_concurrency < 1 or self.max_failures < 1:
            raise ConfigError("search.engine.max_concurrency and max_failures must be at least 1.")
        self._is_past = self.at < now
        self._failures, self._lock = 0, threading.Lock()

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings with the month in place of "auto"."""
        return {
            **settings,
            "at": get_current_month() if settings.get("at", "auto") == "auto" else settings["at"],
        }

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the only kind of request that is served, Search."""
        return (Search,)

    @property
    def capacity(self) -> int:
        """Return the number of searches that are worth submitting at once."""
        return 4 * self.max_concurrency

    @cached_property
    def _client(self) -> httpx.Client:
        return httpx.Client(timeout=_TIMEOUT)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.max_concurrency, thread_name_prefix="search")

    def explain_refusal(self, request: Request) -> str | None:
        """Return why a request that the ledger lacks cannot be served, or None if it can be."""
        if not isinstance(request, Search) or not request.query.strip() or request.n < 1:
            return (
                "a search needs a query that is not empty and an n of at least 1; received "
                f"{request!r}."
            )
        if self._is_past:
            return (
                f"searches of {self.at} can only be replayed, and the ledger has none for "
                f"{request.query!r} (n={request.n}). Import its calls (`winnow ledger import`), "
                "or search now with search.at=auto."
            )
        return None

    def check(self) -> None:
        """Raise ConfigError if the API's key is missing, unless searches are only replayed."""
        if not self._is_past:
            self.api.check()

    def stop(self) -> None:
        """Start no further search."""
        self._error = self._error or StoppedError(f"{self.identity} was stopped.")

    def close(self) -> None:
        """Close the connections. Searches that run are not waited for."""
        for name in ("_pool", "_client"):
            resource = self.__dict__.pop(name, None)
            if isinstance(resource, ThreadPoolExecutor):
                resource.shutdown(wait=False, cancel_futures=True)
            elif resource is not None:
                resource.close()
        self.pages.close()

    def fits(self, request: Request) -> bool:  # noqa: ARG002 (the protocol)
        """Return True, because the length of queries is not limited."""
        return True

    def count_tokens(self, request: Request) -> int:
        """Return the length of the query in characters, because queries are not tokenized here."""
        assert isinstance(request, Search)
        return len(request.query)

    def submit(self, requests: Sequence[Request]) -> None:
        """Start searches in threads."""
        for request in requests:
            assert isinstance(request, Search)
            self._running[self._pool.submit(self._serve, request)] = request

    def collect(self, timeout: float) -> Sequence[tuple[Request, Result]]:
        """Return finished searches; wait at most `timeout` seconds for the first one.

        Raises:
            ReaderError: If the API rejects every search, as for a wrong key.
            ServerUnavailableError: If too many successive searches have failed.
        """
        if self._running:
            wait(self._running, timeout, FIRST_COMPLETED)
        finished_futures = [future for future in self._running if future.done()]
        results: list[tuple[Request, Result]] = []
        for future in finished_futures:
            request = self._running.pop(future)
            error = future.exception()
            if error is None:
                results.append((request, future.result()))
            elif isinstance(error, ReaderError):
                self._error = self._error or error
            else:
                raise error
        if self._error is not None and not results and not self._running:
            raise self._error
        return results

    def _serve(self, search: Search) -> Result:
        """Search, read the pages, and return them or the failure."""
        if self._error is not None:
            raise self._error
        try:
            results = self._find(search)
        except _RetryError as error:
            return self._count_failure(str(error))
        with self._lock:
            self._failures = 0
        passages, snapshots = [], list[Snapshot]()
        for result in results:
            passage, snapshot = self.pages.read(result)
            snapshots.append(snapshot)
            if passage is not None:
                passages.append(passage)
        return Pages(tuple(passages), tuple(snapshots))

    def _count_failure(self, reason: str) -> Failed:
        """Return a failure, and stop the run after too many successive ones."""
        with self._lock:
            self._failures += 1
            if self._failures >= self.max_failures:
                self._error = ServerUnavailableError(
                    f"{self.max_failures} successive searches of {self.identity} failed, the last "
                    f"one because of: {reason}. Run the same command again once the search engine "
                    "answers: finished searches are kept. To make those again that failed, "
                    "delete them with `winnow ledger prune --failed`."
                )
        return Failed(reason)

    def _find(self, search: Search) -> Sequence[SearchResult]:
        """Ask the API, with retries, and return the `n` best results, preferred domains first."""
        number = max(search.n, _MIN_RESULTS) if self.prefer else search.n
        retrying = Retrying(
            retry=retry_if_exception_type(_RetryError),
            stop=_is_hopeless,
            wait=_wait_as_told,
            reraise=True,
        )
        results = retrying(self._ask, search.query, number)
        return sorted(results, key=lambda result: not self._is_preferred(result.url))[: search.n]

    def _ask(self, query: str, n: int) -> Sequence[SearchResult]:
        """Ask the API once.

        Raises:
            _RetryError: If another attempt may succeed.
            ReaderError: If the API rejects the search.
        """
        try:
            reply = self._client.send(self.api.build_request(query, n))
        except httpx.TimeoutException:
            raise _RetryError(f"time-out: no reply in {_TIMEOUT:g} s") from None
        except httpx.HTTPError as error:
            reason = self.api.mask_key(f"{type(error).__name__}: {error}")[:300]
            raise _RetryError(reason) from None  # the cause may hold the key
        if reply.status_code in _REJECTED and not _is_quota(reply):
            raise ReaderError(
                f"The search engine {self.identity} rejects searches with HTTP status "
                f"{reply.status_code}: {self.api.mask_key(reply.text)[:300]!r}. Check the key and "
                "the settings in search.engine.api."
            )
        if not reply.is_success:
            reason = "quota exceeded: " if _is_quota(reply) else ""
            raise _RetryError(
                f"{reason}HTTP status {reply.status_code}", parse_retry_after(reply.headers) or 0.0
            )
        try:
            return self.api.parse_reply(reply.json())
        except ValueError as error:
            raise _RetryError(self.api.mask_key(f"no reply of this API: {error}")[:300]) from None

    def _is_preferred(self, url: str) -> bool:
        """Return whether a page belongs to a preferred domain."""
        try:
            host = urlsplit(url).hostname or ""
        except ValueError:  # the reader of pages says why it cannot be read
            return False
        return any(host == domain or host.endswith(f".{domain}") for domain in self.prefer)


def _is_quota(reply: httpx.Response) -> bool:
    """Return whether an API refuses a search because there were too many."""
    return (
        reply.status_code in (402, 429)
        or (reply.status_code == 403 and "quota" in reply.text.lower())
        or (reply.status_code == 400 and "credits" in reply.text.lower())
    )


def _get_told_wait(state: RetryCallState) -> float:
    """Return the seconds that the API asked to wait, or 0."""
    error = state.outcome.exception() if state.outcome else None
    return error.after if isinstance(error, _RetryError) else 0.0


def _is_hopeless(state: RetryCallState) -> bool:
    """Return whether to give up: after several attempts, or if the API asks for a long wait."""
    return state.attempt_number >= _MAX_ATTEMPTS or _get_told_wait(state) > _MAX_WAIT


def _wait_as_told(state: RetryCallState) -> float:
    """Return the wait before the next attempt: what the API says, or a random time that grows."""
    return max(_get_told_wait(state), wait_random_exponential(multiplier=0.5, max=_MAX_WAIT)(state))
