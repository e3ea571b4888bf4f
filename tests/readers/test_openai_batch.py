"""The Batch API against a server on this machine."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.readers.batch_cases import plan, reader, request, send, sweep
from winnow.artifacts.owners import get_host_name, get_process_name, read_start_time
from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.errors import BudgetError, ConfigError, ReaderError
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.readers import batch_state
from winnow.readers.batch_queue import Results
from winnow.readers.batch_state import SentBatch
from winnow.readers.budget import Budget
from winnow.readers.openai_batch import OpenAIBatchReader
from winnow.readers.openai_chat import OpenAIReader
from winnow.requests import Failed, Generate, Tool, Usage
from winnow.testing.chat_server import ChatServer


def test_rounds_of_plans_are_batches(tmp_path: Path) -> None:
    """Twenty plans of two rounds are two batches; afterwards nothing is remembered as out."""
    server = ChatServer(num_polls=3)
    with server.serve() as url:
        outcomes, _ = sweep(
            reader(url, tmp_path), tmp_path, [plan(f"a{n}", f"b{n}") for n in range(20)]
        )
    assert {o.result.text for o in outcomes.values()} == {f"A{n},B{n}" for n in range(20)}
    assert len(server._batches) == 2
    assert not list((tmp_path / "batches").glob("*"))


def test_a_batch_outlives_its_process(tmp_path: Path) -> None:
    """One process sends and ends; the next takes the batch up, sends nothing, and merges it into
    the ledger.
    """
    server = ChatServer()
    with server.serve() as url:
        first = reader(url, tmp_path)
        send(first, "a", "b")
        outcomes, driver = sweep(reader(url, tmp_path), tmp_path, [plan("a"), plan("b"), plan("c")])
        assert {o.result.text for o in outcomes.values()} == {"A", "B", "C"}
        assert len(server._batches) == 2
        assert driver.stats.executed == 3
        assert set(server.received.values()) == {1}
        with SqliteStore(tmp_path / "l.sqlite") as ledger:
            chat = OpenAIReader("m", "m", url)
            assert (
                Driver(build_engine_map(chat), ledger)
                .run([Job(1, plan("a"))])
                .__next__()
                .result.text
                == "A"
            )
    assert server.received["a"] == 1


def test_two_processes_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as two shards: neither takes the other's results, for which that one would wait."""
    server = ChatServer()
    with server.serve() as url:
        first, second = reader(url, tmp_path), reader(url, tmp_path)
        send(first, "a")
        me, other = get_process_name(), f"1-{read_start_time(1)}@{get_host_name()}"
        monkeypatch.setattr(batch_state, "get_process_name", lambda: other)
        second.submit([request("b")])
        while not (results := second.collect(1.0)):
            pass
        assert [one.messages[0].content for one, _ in results] == ["b"]
        assert not second.collect(0.0)
        monkeypatch.setattr(batch_state, "get_process_name", lambda: me)
        while not (results := first.collect(1.0)):
            pass
        assert [one.messages[0].content for one, _ in results] == ["a"]


def test_what_another_process_paid_for_is_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard that was started again may find its batch with another one, which polls it. What that
    one took without this ledger's knowledge is sent again, and not waited for without end.
    """
    server = ChatServer()
    with server.serve() as url:
        first, second = reader(url, tmp_path), reader(url, tmp_path)
        send(first, "a")
        other = f"1-{read_start_time(1)}@{get_host_name()}"
        monkeypatch.setattr(batch_state, "get_process_name", lambda: other)
        second.submit([request("a")])
        assert not second.collect(0.1)
        assert len(server._batches) == 1
        for path in (tmp_path / "batches").glob("*.json"):
            path.unlink()
        while not (results := second.collect(1.0)):
            pass
        assert [one.messages[0].content for one, _ in results] == ["a"]
        assert len(server._batches) == 2


def test_a_kill_between_sending_and_noting_the_id_is_made_good(tmp_path: Path) -> None:
    """The batch is found by its name; one that was never created is sent again."""
    server = ChatServer()
    with server.serve() as url:
        first = reader(url, tmp_path)
        send(first, "a")
        (note,) = (tmp_path / "batches").glob("*.json")
        body = json.loads(note.read_text()) | {"batch": None}
        note.write_text(json.dumps(body))
        lost = note.with_name("lost.json")
        lost.write_text(json.dumps(body | {"name": "lost", "requests": {}}))
        outcomes, _ = sweep(reader(url, tmp_path), tmp_path, [plan("a")])
    assert outcomes[0].result.text == "A"
    assert len(server._batches) == 1
    assert not list((tmp_path / "batches").glob("*"))


def test_a_batch_that_finished_meanwhile_is_not_paid_again(tmp_path: Path) -> None:
    """Its requests are wanted by this run too, beside a new one: the new one alone is sent."""
    server = ChatServer()
    with server.serve() as url:
        first = reader(url, tmp_path)
        send(first, "a", "b")
        outcomes, _ = sweep(reader(url, tmp_path), tmp_path, [plan(p) for p in "abcd"])
    assert {o.result.text for o in outcomes.values()} == {"A", "B", "C", "D"}
    assert server.received == {"a": 1, "b": 1, "c": 1, "d": 1}


def test_a_small_capacity_takes_unrequested_results_in(tmp_path: Path) -> None:
    """A batch of an earlier run holds calls that this run has queued and not yet submitted."""
    server = ChatServer()
    with server.serve() as url:
        first = reader(url, tmp_path)
        send(first, *"abcdef")
        second = reader(url, tmp_path)
        second.capacity = 2
        outcomes, driver = sweep(second, tmp_path, [plan(p) for p in "abcdefg"])
    assert {o.result.text for o in outcomes.values()} == set("ABCDEFG")
    assert max(server.received.values()) == 1
    assert driver.stats.executed == 7


def test_a_refused_call_that_may_fail_is_a_result(tmp_path: Path) -> None:
    """HTTP 400 for one line; its plan goes on."""
    server = ChatServer(fault_rule=lambda prompt, _: "moderated" if prompt == "bad" else None)
    with server.serve() as url:
        engine = reader(url, tmp_path)
        good, bad = request("a"), structs.replace(request("bad"), may_fail=True)
        engine.submit([good, bad])
        results = []
        while len(results) < 2:
            results += engine.collect(5.0)
    by_prompt = {q.messages[0].content: result for q, result in results if isinstance(q, Generate)}
    assert isinstance(by_prompt["bad"], Failed)
    assert "HTTP 400" in by_prompt["bad"].reason


def test_lines_that_failed_are_sent_again(tmp_path: Path) -> None:
    """A 500 within a batch, and a line without an answer; those that came are kept."""
    server = ChatServer(
        fault_rule=lambda p, t: {"a": "500", "b": "stall"}.get(p) if t == 1 else None
    )  # type: ignore[arg-type, return-value]
    with server.serve() as url:
        outcomes, _ = sweep(reader(url, tmp_path), tmp_path, [plan(p) for p in "abc"])
    assert {o.result.text for o in outcomes.values()} == {"A", "B", "C"}
    assert server.received == {"a": 2, "b": 2, "c": 1}


def test_a_refused_line_ends_the_run_after_the_others_are_kept(tmp_path: Path) -> None:
    """A 401 within a batch: the two answers are in the ledger, the error is raised, and a rerun
    asks only for the rest.
    """
    server = ChatServer(
        fault_rule=lambda prompt, time: "refuse" if prompt == "bad" and time == 1 else None
    )
    with server.serve() as url:
        with pytest.raises(ReaderError, match="HTTP 401"):
            sweep(reader(url, tmp_path), tmp_path, [plan(p) for p in ("a", "bad", "c")])
        with SqliteStore(tmp_path / "l.sqlite") as ledger:
            assert len(ledger) == 2
        sweep(reader(url, tmp_path), tmp_path, [plan(p) for p in ("a", "bad", "c")])
    assert server.received == {"a": 1, "bad": 2, "c": 1}
    assert not list((tmp_path / "batches").glob("*"))


def test_a_batch_of_another_sweep_is_merged_too(tmp_path: Path) -> None:
    """What this run does not ask for goes into the ledger all the same, and its note is
    forgotten.
    """
    server = ChatServer()
    with server.serve() as url:
        first = reader(url, tmp_path)
        send(first, "a", "b")
        _, driver = sweep(reader(url, tmp_path), tmp_path, [plan("c")])
        assert driver.stats.executed == 1
        with SqliteStore(tmp_path / "l.sqlite") as ledger:
            assert len(ledger) == 3
    assert not list((tmp_path / "batches").glob("*"))


def test_a_request_that_lost_its_key_is_not_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A state file with less than the whole request, of another run: its reply would be stored as
    the reply to something else.
    """
    server = ChatServer()
    with server.serve() as url:
        first = reader(url, tmp_path)
        tools = (Tool("search", "Search the web.", "{}"),)
        first.submit([structs.replace(request("a"), tools=tools)])
        first._queue._send([])
        (note,) = (tmp_path / "batches").glob("*.json")
        note.write_text(note.read_text().replace('"tools": [{', '"former": [{'))
        outcomes, driver = sweep(reader(url, tmp_path), tmp_path, [plan("b"), plan("a")])
    assert {o.result.text for o in outcomes.values()} == {"A", "B"}
    assert driver.stats.executed == 2
    assert server.received == {"a": 2, "b": 1}
    assert "does not have its key" in caplog.text


def test_a_budget_counts_what_this_run_sent(tmp_path: Path) -> None:
    """Results of an earlier process settle nothing; failed lines give back what was set aside for
    them.
    """
    server = ChatServer(
        fault_rule=lambda prompt, time: "500" if prompt == "x" and time == 1 else None
    )
    with server.serve() as url:
        first = reader(url, tmp_path)
        send(first, *(f"q{n}" for n in range(5)))
        engine = reader(url, tmp_path, Budget(tokens=40))
        outcomes, _ = sweep(engine, tmp_path, [plan("x"), *(plan(f"q{n}") for n in range(5))])
    assert len(outcomes) == 6
    assert engine.spending._reserved == Usage()
    assert engine.spending.spent == Usage(1, 1)


def test_a_budget_holds_for_batches(tmp_path: Path) -> None:
    """As many as it allows go out; then the run ends, with their results kept."""
    server = ChatServer()
    with server.serve() as url:
        with pytest.raises(BudgetError):
            sweep(
                reader(url, tmp_path, Budget(tokens=27)),
                tmp_path,
                [plan(f"q{n}") for n in range(5)],
            )
        assert 0 < len(server.received) < 5
        _, driver = sweep(reader(url, tmp_path), tmp_path, [plan(f"q{n}") for n in range(5)])
    assert set(server.received.values()) == {1}
    assert driver.stats.ledger_hits == 5 - driver.stats.executed


def test_settings_that_cannot_work(tmp_path: Path) -> None:
    """By name."""
    with pytest.raises(ConfigError, match="capacity"):
        OpenAIBatchReader("m", "m", capacity=0)


def test_a_failing_batch_loses_no_results_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read before the failure is stored before the error ends the run, although its note
    is removed.
    """
    server = ChatServer(num_polls=0)
    with server.serve() as url:
        for text in ("a", "b"):
            send(reader(url, tmp_path), text)
        engine = reader(url, tmp_path)
        poll, notes = engine._queue._poll, sorted((tmp_path / "batches").glob("*"))

        def failing(batch: SentBatch) -> Results:
            if batch.path == notes[1]:
                raise ReaderError("the server refused")
            return poll(batch)

        monkeypatch.setattr(engine._queue, "_poll", failing)
        with pytest.raises(ReaderError, match="the server refused"):
            sweep(engine, tmp_path, [plan("a"), plan("b")])
        outcomes, driver = sweep(reader(url, tmp_path), tmp_path, [plan("a"), plan("b")])
    assert {outcome.result.text for outcome in outcomes.values()} == {"A", "B"}
    assert driver.stats.ledger_hits == 1
    assert set(server.received.values()) == {1}


@pytest.mark.parametrize("gone", ["batch", "file"])
def test_what_the_server_no_longer_has_is_requested_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    """Results are kept for a month or less; the message names the batch and its state file."""
    server = ChatServer(num_polls=1)
    lost: list[str] = []
    real = ChatServer._serve

    async def serve(
        self: ChatServer, writer: Any, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> bool:
        is_gone = path.startswith("/v1/batches/") if gone == "batch" else path.endswith("/content")
        if is_gone and not lost:
            lost.append(path)
            return self._send(writer, 404, {"error": {"message": "No such object"}})
        return await real(self, writer, method, path, headers, body)

    monkeypatch.setattr(ChatServer, "_serve", serve)
    with server.serve() as url:
        outcomes, _ = sweep(reader(url, tmp_path), tmp_path, [plan("a"), plan("b")])
    assert [outcomes[n].result.text for n in (0, 1)] == ["A", "B"]
    assert len(server._batches) == 2
    assert "The server no longer has" in caplog.text
    assert str(tmp_path / "batches") in caplog.text


def test_a_full_queue_takes_one_smaller_batch_after_another(tmp_path: Path) -> None:
    """Ten requests to a queue that has room for three: halved until they fit, and each is answered
    once.
    """
    server = ChatServer(max_queued=3)
    with server.serve() as url:
        outcomes, _ = sweep(reader(url, tmp_path), tmp_path, [plan(f"a{n}") for n in range(10)])
    assert {o.result.text for o in outcomes.values()} == {f"A{n}" for n in range(10)}
    assert set(server.received.values()) == {1}
    statuses = [batch["status"] for batch in server._batches.values()]
    assert statuses == [
        "failed",
        "failed",
        "completed",
        "completed",
        "completed",
        "completed",
        "completed",
    ]


def test_a_request_that_alone_fills_the_queue_ends_the_run(tmp_path: Path) -> None:
    """It would be refused forever."""
    with (
        ChatServer(max_queued=0).serve() as url,
        pytest.raises(ReaderError, match="Enqueued token limit"),
    ):
        sweep(reader(url, tmp_path), tmp_path, [plan("a"), plan("b")])


def test_an_error_beside_a_reply_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line of the same request in the file of errors, or twice in one file: the reply that came
    first was paid for.
    """
    with ChatServer().serve() as url:
        engine = reader(url, tmp_path)
        download = engine._api.download

        def add_error(file_id: str) -> list[str]:
            (line,) = download(file_id)
            error = {"status_code": 400, "body": {"error": {"message": "broken"}}}
            return [
                line,
                json.dumps({"custom_id": json.loads(line)["custom_id"], "response": error}),
            ]

        monkeypatch.setattr(engine._api, "download", add_error)
        outcomes, _ = sweep(engine, tmp_path, [plan("a")])
    assert outcomes[0].result.text == "A"


def test_lines_without_usage_are_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the prompt of their own request: 400 characters are about 100 tokens."""
    with ChatServer().serve() as url:
        engine = reader(url, tmp_path)
        download = engine._api.download
        monkeypatch.setattr(
            engine._api,
            "download",
            lambda i: [line.replace('"usage"', '"used"') for line in download(i)],
        )
        _, driver = sweep(engine, tmp_path, [plan("a" * 400)])
    assert list(driver.stats.usage.values()) == [Usage(108, 100)]
