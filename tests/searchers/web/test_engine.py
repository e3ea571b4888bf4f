"""The web as an engine of the driver: searches are made once, replayed, dated, retried and recorded
when they fail.
"""

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tenacity.nap
from small_web import Reply, SmallWeb

from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.errors import ConfigError, ReaderError, ServerUnavailableError, StoppedError
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.requests import Failed, Pages, Plan, Search
from winnow.searchers.web import engine as engine_module
from winnow.searchers.web.apis import Searxng, Serper
from winnow.searchers.web.engine import WebSearch
from winnow.searchers.web.identity import get_current_month, is_web_search, name_web_search
from winnow.searchers.web.pages import PageReader

MONTH = get_current_month()
TEXT = (
    "The bridge over the river was opened in 1878, and it has been the landmark of the town ever "
    "since that year."
)


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits before further attempts, which tests do not wait for."""
    waited: list[float] = []
    monkeypatch.setattr(tenacity.nap.time, "sleep", waited.append)
    return waited


def make_engine(web: SmallWeb, **settings: Any) -> WebSearch:
    """An engine that searches the small web."""
    api = settings.pop("api", Searxng(f"{web.url}/search"))
    return WebSearch(
        name_web_search("web", settings.get("at", MONTH), "1"),
        api,
        PageReader(allow_private=True),
        **settings,
    )


def add_pages(web: SmallWeb, count: int = 3) -> list[str]:
    """Pages that every search finds."""
    urls = [
        web.add(f"/page{number}", f"<html><body><p>Page {number}. {TEXT}</p></body></html>")
        for number in range(count)
    ]
    found = {
        "results": [
            {"url": url, "title": f"title {number}", "content": "excerpt"}
            for number, url in enumerate(urls)
        ]
    }
    web.add("/search", json.dumps(found), Content_Type="application/json")
    return urls


def _search(query: str, n: int) -> Plan[Pages | Failed]:
    (result,) = yield [Search(query, n)]
    return result  # type: ignore[no-any-return]


def run(
    tmp_path: Path, engine: WebSearch, queries: Sequence[str] = ("bridge",), n: int = 2
) -> list[Pages | Failed]:
    """Search through the driver, and return the results in the order of the queries."""
    with SqliteStore(tmp_path / "ledger.sqlite") as ledger:
        driver = Driver(build_engine_map(engine), ledger)
        try:
            outcomes = {
                outcome.tag: outcome
                for outcome in driver.run([Job(query, _search(query, n)) for query in queries])
            }
        finally:
            engine.close()
    assert all(outcome.usage[0].role == "search" for outcome in outcomes.values())
    return [outcomes[query].result for query in queries]


def test_pages_are_read_and_replayed_without_the_web(web: SmallWeb, tmp_path: Path) -> None:
    """Texts and snapshots come back from the ledger as they were, after the web has changed."""
    urls = add_pages(web)
    (first,) = run(tmp_path, make_engine(web))
    assert isinstance(first, Pages)
    assert [(page.passage_id, page.title) for page in first.passages] == [
        (urls[0], "title 0"),
        (urls[1], "title 1"),
    ]
    assert all(f"Page {number}. {TEXT}" in page.text for number, page in enumerate(first.passages))
    assert [(snapshot.url, snapshot.note) for snapshot in first.snapshots] == [
        (url, "") for url in urls[:2]
    ]
    web.replies.clear()
    requests = len(web.requests)
    assert run(tmp_path, make_engine(web)) == [first]
    assert len(web.requests) == requests


def test_preferred_domains_come_first(web: SmallWeb, tmp_path: Path) -> None:
    """Among ten results, of which the best n are read; the order is otherwise kept."""
    urls = [
        "http://a.example/1",
        "http://en.wikipedia.org/w",
        "http://notwikipedia.org/",
        "http://wikipedia.org/v",
    ]
    web.add("/search", json.dumps({"organic": [{"link": url, "snippet": "s"} for url in urls]}))
    engine = make_engine(web, prefer=["wikipedia.org"], api=Serper(f"{web.url}/search"))
    (result,) = run(tmp_path, engine, n=3)
    assert isinstance(result, Pages)
    assert [page.passage_id for page in result.passages] == [urls[1], urls[3], urls[0]]
    assert all("cannot be resolved" in snapshot.note for snapshot in result.snapshots)
    assert json.loads(web.requests[0][3])["num"] == 10


def test_nothing_found_is_no_failure(web: SmallWeb, tmp_path: Path) -> None:
    """An empty list of results, or none."""
    web.add("/search", "{}")
    assert run(tmp_path, make_engine(web)) == [Pages(())]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(b"busy", 503), "HTTP status 503"),
        (Reply(b"slow down", 429), "quota exceeded: HTTP status 429"),
        (
            Reply(b'{"error": {"errors": [{"reason": "quotaExceeded"}]}}', 403),
            "quota exceeded: HTTP status 403",
        ),
        (Reply(b"You have no credits left", 400), "quota exceeded: HTTP status 400"),
        (Reply(b"<html>"), "no reply of this API"),
        (Reply(b"[1]"), "no reply of this API"),
        (Reply(b"\xff\xfe\x00"), "no reply of this API"),
    ],
)
def test_a_failed_search_is_recorded(
    web: SmallWeb, tmp_path: Path, waits: list[float], reply: Reply, reason: str
) -> None:
    """After four attempts; a later run receives the same failure until it is pruned."""
    web.replies["/search"] = reply
    (result,) = run(tmp_path, make_engine(web))
    assert isinstance(result, Failed)
    assert result.reason.startswith(reason)
    assert (len(web.requests), len(waits)) == (4, 3)
    add_pages(web)
    assert run(tmp_path, make_engine(web)) == [result]


def test_another_attempt_may_succeed(web: SmallWeb, tmp_path: Path, waits: list[float]) -> None:
    """The wait that the server asks for is kept; a wait of hours is not worth it."""
    add_pages(web)
    found = web.replies["/search"]
    assert isinstance(found, Reply)
    web.replies["/search"] = [Reply(b"", 429, {"Retry-After": "7.5"}), found]
    (result,) = run(tmp_path, make_engine(web))
    assert isinstance(result, Pages)
    assert waits == [7.5]
    web.replies["/search"] = Reply(b"", 429, {"Retry-After": "86400"})
    web.requests.clear()
    (result,) = run(tmp_path, make_engine(web), ["another"])
    assert isinstance(result, Failed)
    assert len(web.requests) == 1


def test_a_time_out_is_recorded(
    web: SmallWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not finish its reply."""
    monkeypatch.setattr(engine_module, "_TIMEOUT", 0.1)
    web.replies["/search"] = Reply(b"123456", pause=0.5)
    monkeypatch.setattr("small_web.sleep", __import__("threading").Event().wait)
    assert run(tmp_path, make_engine(web)) == [Failed("time-out: no reply in 0.1 s")]


def test_successive_failures_stop_the_run(web: SmallWeb, tmp_path: Path) -> None:
    """An exhausted quota fails a few searches, not all of a sweep; the next run goes on with the
    others.
    """
    web.replies["/search"] = Reply(b"", 429)
    queries = [f"query {number}" for number in range(40)]
    with pytest.raises(
        ServerUnavailableError,
        match=r"3 successive searches .* quota exceeded.*ledger prune --failed",
    ):
        run(tmp_path, make_engine(web, max_failures=3, max_concurrency=1), queries)
    assert len(web.requests) == 12
    add_pages(web)
    results = run(tmp_path, make_engine(web, max_failures=3, max_concurrency=1), queries)
    assert sum(isinstance(result, Failed) for result in results) == 3


def test_a_stopped_engine_returns_the_searches_that_run_and_starts_no_other(web: SmallWeb) -> None:
    """The error comes behind their results."""
    add_pages(web)
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Searxng):
        """An API that answers when it may."""

        def parse_reply(self, reply: Any) -> Any:
            begun.set()
            go_on.wait(5)
            return super().parse_reply(reply)

    engine = make_engine(web, api=Slow(f"{web.url}/search"), max_concurrency=1)
    engine.submit([Search(f"query {number}", 2) for number in range(4)])
    assert begun.wait(5)
    engine.stop()
    assert engine.collect(0.0) == []
    go_on.set()
    results = engine.collect(5.0)
    assert [isinstance(result, Pages) for _, result in results] == [True]
    with pytest.raises(StoppedError):
        while True:
            engine.collect(1.0)
    engine.close()


def test_failures_between_which_a_search_succeeds_do_not_stop_the_run(
    web: SmallWeb, tmp_path: Path
) -> None:
    """Only successive ones count."""
    add_pages(web)
    found = web.replies["/search"]
    assert isinstance(found, Reply)
    failure = [Reply(b"", 429)] * 4
    web.replies["/search"] = [*failure, found, *failure, found, *failure, found]
    results = run(
        tmp_path,
        make_engine(web, max_failures=2, max_concurrency=1),
        [f"query {number}" for number in range(6)],
    )
    assert [isinstance(result, Failed) for result in results] == [True, False] * 3


def test_a_rejected_key_stops_the_run_and_is_not_shown(
    web: SmallWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is recorded, since every search would fail alike."""
    monkeypatch.setenv("SOME_KEY", "a-secret-key")
    web.replies["/search"] = Reply(b"invalid key a-secret-key", 403)
    engine = make_engine(web, api=Serper(f"{web.url}/search", "SOME_KEY"))
    with pytest.raises(ReaderError, match=r"HTTP status 403.*invalid key \[key\]") as raised:
        run(tmp_path, engine)
    assert "a-secret-key" not in str(raised.value)
    add_pages(web, 0)
    web.add("/search", '{"organic": []}')
    assert run(tmp_path, make_engine(web, api=Serper(f"{web.url}/search", "SOME_KEY"))) == [
        Pages(())
    ]
    assert b"a-secret-key" not in (tmp_path / "ledger.sqlite").read_bytes()


def test_a_past_month_is_only_replayed(
    web: SmallWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the key; a search that the ledger lacks stops the run and says what to do."""
    add_pages(web)
    monkeypatch.setattr(engine_module, "get_current_month", lambda: "2026-10")
    recorded = run(tmp_path, make_engine(web, at="2026-10"))
    monkeypatch.undo()
    requests = len(web.requests)
    replaying = make_engine(web, at="2026-10", api=Serper(f"{web.url}/search", "A_MISSING_KEY"))
    replaying.check()
    assert run(tmp_path, replaying) == recorded
    with pytest.raises(
        ConfigError, match=r"searches of 2026-10 can only be replayed.*'another'.*ledger import"
    ):
        run(tmp_path, make_engine(web, at="2026-10"), ["another"])
    assert len(web.requests) == requests
    with pytest.raises(ConfigError, match="A_MISSING_KEY"):
        make_engine(web, api=Serper(f"{web.url}/search", "A_MISSING_KEY")).check()


@pytest.mark.parametrize("at", ["2026-13", "2026", "9999-01", "", "2026-10-01", "Oktober"])
def test_a_month_that_is_none_is_refused(web: SmallWeb, at: str) -> None:
    """Also one in the future."""
    with pytest.raises(ConfigError, match=r"search\.at must be auto or a month"):
        make_engine(web, at=at)


def test_identities_have_the_month() -> None:
    """It is resolved before it becomes part of a key, so that next month's searches are
    new ones.
    """
    assert WebSearch.resolve_settings({"at": "auto", "x": 1}) == {"at": MONTH, "x": 1}
    assert WebSearch.resolve_settings({"at": "2026-10"}) == {"at": "2026-10"}
    assert is_web_search(name_web_search("serper", "2026-10", "abc"))
    assert is_web_search("serper/2026-10@abc/revision-2")
    assert not is_web_search("local@abc")
    assert not is_web_search("gpt-2026-10@abc")


@pytest.mark.parametrize("search", [Search("  ", 5), Search("q", 0)])
def test_a_search_for_nothing_is_refused(web: SmallWeb, tmp_path: Path, search: Search) -> None:
    """Before it is made."""
    with pytest.raises(ConfigError, match="a search needs a query"):
        run(tmp_path, make_engine(web), [search.query], search.n)


def test_the_reason_of_a_failure_does_not_show_the_key(
    tmp_path: Path, web: SmallWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stored in the ledger."""
    monkeypatch.setenv("SOME_KEY", "0123456789\rabcdef")
    engine = make_engine(web, api=Serper(f"{web.url}/search", "SOME_KEY"))
    (result,) = run(tmp_path, engine)
    assert isinstance(result, Failed)
    assert "[key]" in result.reason
    assert b"0123456789" not in (tmp_path / "ledger.sqlite").read_bytes()


@pytest.mark.parametrize("prefer", [[], ["wikipedia.org"]])
def test_a_malformed_address_among_the_results_ends_nothing(
    web: SmallWeb, tmp_path: Path, prefer: list[str]
) -> None:
    """It has its excerpt and a note, as a page that cannot be read."""
    urls = ["http://[broken/page", "http://a.example/1"]
    web.add("/search", json.dumps({"organic": [{"link": url, "snippet": "s"} for url in urls]}))
    engine = make_engine(web, prefer=prefer, api=Serper(f"{web.url}/search"))
    (result,) = run(tmp_path, engine)
    assert isinstance(result, Pages)
    assert [page.passage_id for page in result.passages] == urls
    assert "cannot be resolved" in result.snapshots[0].note


def test_a_stop_keeps_an_earlier_error(web: SmallWeb) -> None:
    """The run ends with what went wrong first."""
    engine = make_engine(web)
    engine._error = LookupError("the first error")
    engine.stop()
    engine.submit([Search("query", 2)])
    with pytest.raises(LookupError, match="the first error"):
        while True:
            engine.collect(1.0)
    engine.close()
