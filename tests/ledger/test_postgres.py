"""The ledger in a database: what is stored is found by any worker, claims are won by one, and a
restart is waited for.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import PostgresServer

from winnow.cli import main
from winnow.errors import ConfigError, LedgerError
from winnow.keys import compute_request_key
from winnow.ledger import claims, tools
from winnow.ledger.postgres import PostgresStore
from winnow.ledger.sqlite import SqliteStore
from winnow.ledger.stores import open_store
from winnow.records import Decoding, Passage
from winnow.requests import (
    Failed,
    Generate,
    Generation,
    Message,
    Pages,
    Result,
    Score,
    ToolCall,
    Usage,
)
from winnow.testing.chat_server import ChatServer

psycopg = pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    found = PostgresServer()
    found.start()
    yield found
    found.stop()


@pytest.fixture
def url(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty database, in which claims lapse as if it ran for long."""
    monkeypatch.setattr("winnow.ledger.postgres.GRACE_SECONDS", 0.0)
    with psycopg.connect(server.url, autocommit=True) as db:
        db.execute("DROP TABLE IF EXISTS calls, claims")
    return server.url


def generate(text: str) -> Generate:
    return Generate((Message("user", text),), Decoding())


def row(text: str, result: Result | None = None) -> tuple[bytes, Generate, Result, float]:
    return (
        compute_request_key("m", generate(text)),
        generate(text),
        result or Generation(text.upper()),
        0.5,
    )


RESULTS: list[Result] = [
    Generation(
        "ü \u2028 \x00 '\\", "stop", Usage(1, 2, seconds=0.5), logprobs=(-0.5, float("-inf"))
    ),
    Score(-1.5),
    Pages((Passage("1", "t", "x"),)),
    Failed("too long"),
]


def test_results_are_found_under_their_keys(url: str) -> None:
    """By another connection too; what was not stored is absent, and a second result of a call
    changes nothing.
    """
    rows = [row(str(number), result) for number, result in enumerate(RESULTS)]
    with open_store(url) as ledger:
        ledger.put("m", rows)
    with PostgresStore(url) as ledger:
        ledger.put("m", [row("0", Score(9.0))])
        assert ledger.get([b"none", *(key for key, *_ in rows)]) == {
            key: result for key, _, result, _ in rows
        }
        assert ledger.get([]) == {}
        assert len(ledger) == len(RESULTS)
        assert ledger.compute_mean_seconds("m") == 0.5
        assert ledger.compute_mean_seconds("other") is None
        ledger.delete([rows[0][0]])
        assert len(ledger) == len(RESULTS) - 1


def test_a_claim_is_won_by_one(url: str) -> None:
    """A second worker gets nothing while the first lives, nor what is stored; leaving and releasing
    give claims back.
    """
    with PostgresStore(url) as first, PostgresStore(url) as second:
        first.put("m", [row("stored")])
        assert first.claim([b"a", b"b", row("stored")[0]]) == {b"a", b"b"}
        assert first.claim([b"a"]) == {b"a"}
        assert second.claim([b"a", b"c"]) == {b"c"}
        assert second.claim([]) == set()
        first.release([b"a", b"c"])
        assert second.claim([b"a", b"b"]) == {b"a"}
        second.put("m", [(b"a", generate("a"), Score(1.0), 0.0)])
        assert first.claim([b"a"]) == set()
    with PostgresStore(url) as third:
        assert third.claim([b"b", b"c"]) == {b"b", b"c"}


def _claim_and_die(url: str) -> None:
    PostgresStore(url).__enter__().claim([b"z", b"y"])
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_loses_its_claims(url: str) -> None:
    """At once on this host; on others after the lease."""
    child = multiprocessing.get_context("spawn").Process(target=_claim_and_die, args=(url,))
    child.start()
    child.join()
    with PostgresStore(url) as ledger:
        assert ledger.claim([b"z"]) == {b"z"}
        assert ledger.release_lapsed_claims() == 1
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(
                "INSERT INTO claims VALUES ('\\x61', 'elsewhere:1:1:0', 0), ('\\x62', "
                "'elsewhere:1:1:0', 1e12)"
            )
        assert ledger.claim([b"a", b"b"]) == {b"a"}
        assert ledger.owner.count("+") == 2
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("UPDATE claims SET expires = 0 WHERE owner LIKE 'elsewhere%'")
        with PostgresStore(url) as other:
            assert other.claim([b"a", b"b"]) == {b"b"}


def test_many_workers_claim_each_call_once(url: str) -> None:
    """Eight connections claim the same calls in different orders; no deadlock, every call has one
    owner.
    """
    keys = [bytes([number // 256, number % 256]) for number in range(400)]
    won: list[set[bytes]] = []

    def work(number: int) -> None:
        with PostgresStore(url) as ledger:
            start.wait()
            ordered = keys[number * 50 :] + keys[: number * 50]
            won.append(set().union(*(ledger.claim(ordered[n : n + 40]) for n in range(0, 400, 40))))
            finish.wait()

    start, finish = threading.Barrier(8), threading.Barrier(8)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(map(len, won)) == 400
    assert set().union(*won) == set(keys)


def test_a_result_that_cannot_be_stored(url: str) -> None:
    """NaN is refused and its claim released; the other results are stored."""
    with PostgresStore(url) as ledger, PostgresStore(url) as other:
        ledger.claim([row("good")[0], row("bad")[0]])
        with pytest.raises(LedgerError, match="NaN"):
            ledger.put("m", [row("bad", Score(float("nan"))), row("good")])
        assert list(ledger.get([row("good")[0], row("bad")[0]])) == [row("good")[0]]
        assert other.claim([row("bad")[0]]) == {row("bad")[0]}


def test_a_damaged_row_is_made_again(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A value that does not fit its checksum is no result."""
    with PostgresStore(url) as ledger:
        ledger.put("m", [row("a"), row("b")])
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("UPDATE calls SET value = replace(value, 'A', 'X')")
        assert ledger.get([row("a")[0], row("b")[0]]) == {
            row("b")[0]: Generation("B", usage=Usage(0, 0, seconds=0.5))
        }
        assert "1 damaged calls were deleted" in caplog.text
        assert ledger.claim([row("a")[0]]) == {row("a")[0]}


def test_a_restart_is_waited_for(
    server: PostgresServer, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The database stops and comes back: the operation ends well. If it is away for too long, the
    error says what to do.
    """
    with PostgresStore(url, patience=30.0) as ledger:
        ledger.put("m", [row("a")])
        server.stop()
        timer = threading.Timer(1.0, server.start)
        timer.start()
        assert len(ledger) == 1
        timer.join()
        assert "does not answer. Waiting for it." in caplog.text
        ledger.put("m", [row("b")])
        ledger.patience = 0.5
        server.stop()
        try:
            with pytest.raises(
                LedgerError,
                match=r"Finished calls are kept; start the database.*run the same command again",
            ):
                ledger.put("m", [row("c")])
        finally:
            server.start()
        ledger.put("m", [row("c")])
        assert len(ledger) == 3


def test_claims_are_renewed_while_a_call_takes_long(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any access to the store, as while a batch of an API is in work; a closed store renews
    nothing.
    """
    monkeypatch.setattr(claims, "RENEWAL_SECONDS", 0.1)
    with PostgresStore(url) as ledger:
        ledger.claim([b"a"])
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("UPDATE claims SET expires = 0, owner = owner")
            deadline = time.monotonic() + 20
            while (
                db.execute("SELECT expires FROM claims").fetchone() == (0.0,)
                and time.monotonic() < deadline
            ):
                time.sleep(0.05)
            assert db.execute("SELECT expires FROM claims").fetchone() != (0.0,)


def test_calls_are_pruned(url: str) -> None:
    """By engine, age, failure and emptiness, as in a file."""
    with PostgresStore(url) as ledger:
        ledger.put(
            "m", [row("kept"), row("blank", Generation(" \n\t")), row("failed", Failed("no"))]
        )
        calling = Generation("", tool_calls=(ToolCall("search", "{}"),))
        ledger.put("n", [row("other"), row("calling", calling)])
        assert tools.prune_calls(ledger, failed=True) == 1
        assert tools.prune_calls(ledger, empty=True) == 1
        assert tools.prune_calls(ledger, engines=["n"], before=0.0) == 0
        assert tools.prune_calls(ledger, engines=["n"]) == 2
        assert list(ledger.get([row("kept")[0], row("other")[0]])) == [row("kept")[0]]
        with pytest.raises(LedgerError, match="Specify at least one"):
            tools.prune_calls(ledger)


def test_addresses_that_cannot_be_used(url: str) -> None:
    """A password in the settings is refused without being repeated; a database that does not exist
    is named at once.
    """
    for address in ("postgresql://me:hunter2@host/x", "postgresql://me@host/x?password=hunter2"):
        with pytest.raises(ConfigError, match="PGPASSWORD") as error:
            open_store(address)
        assert "hunter2" not in str(error.value)
    with (
        pytest.raises(LedgerError, match='database "none" does not exist'),
        open_store(url.replace("/postgres", "/none")),
    ):
        pass


def test_calls_are_copied_between_stores(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a file to the database and back, by the commands of `winnow ledger`."""
    with SqliteStore(tmp_path / "a.sqlite") as ledger:
        ledger.put("m", [row(str(number), result) for number, result in enumerate(RESULTS)])
        expected = ledger.get([row(str(number))[0] for number in range(len(RESULTS))])
    main(["ledger", "merge", url, str(tmp_path / "a.sqlite")])
    main(["ledger", "merge", url, str(tmp_path / "a.sqlite")])
    main(["ledger", "export", url, str(tmp_path / "calls.jsonl")])
    main(["ledger", "import", str(tmp_path / "b.sqlite"), str(tmp_path / "calls.jsonl")])
    with SqliteStore(tmp_path / "c.sqlite"):
        pass
    main(["ledger", "merge", str(tmp_path / "c.sqlite"), url])
    assert capsys.readouterr().out.splitlines()[:2] == ["4 calls added", "0 calls added"]
    for name in ("b", "c"):
        with SqliteStore(tmp_path / f"{name}.sqlite") as ledger:
            assert ledger.get(list(expected)) == expected


SWEEP = """
import sys
from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.ledger.stores import open_store
from winnow.protocols import build_engine_map
from winnow.readers.openai_chat import OpenAIReader
from winnow.readers.pacing import Pacing
from winnow.records import Answer, Decoding
from winnow.requests import Generate, Message

def plan(number):
    (reply,) = yield [Generate((Message("user", f"first {number}"),), Decoding())]
    return Answer(reply.text, unknown=False)

reader = OpenAIReader("m", "m", sys.argv[1], pacing=Pacing(max_concurrency=8))
with open_store(sys.argv[2]) as ledger:
    driver = Driver(build_engine_map(reader), ledger, max_active=50)
    texts = [outcome.result.text for outcome in driver.run(Job(n, plan(n)) for n in range(200))]
print(len(texts), driver.stats.executed, driver.stats.external)
"""


def test_workers_share_a_sweep(url: str) -> None:
    """Two processes begin the same sweep at once: every call is made by one of them, and both have
    all answers.
    """
    chat = ChatServer(latency=0.01)
    with chat.serve() as address:
        words = [sys.executable, "-c", SWEEP, address, url]
        workers = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        outputs = [worker.communicate()[0].split() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    assert [output[0] for output in outputs] == ["200", "200"]
    assert sum(int(output[1]) for output in outputs) == 200
    assert chat.calls == 200


def test_an_outage_costs_no_claim(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases run out while the database is away, and their owners are alive."""
    monkeypatch.setattr("winnow.ledger.postgres.GRACE_SECONDS", 1e6)
    with psycopg.connect(url, autocommit=True) as db, PostgresStore(url) as ledger:
        ledger.claim([b"b"])
        db.execute("INSERT INTO claims VALUES ('\\x61', 'elsewhere:1:1:0', 0)")
        assert ledger.claim([b"a", b"b"]) == {b"b"}
        monkeypatch.setattr("winnow.ledger.postgres.GRACE_SECONDS", 0.0)
        assert ledger.claim([b"a"]) == {b"a"}
