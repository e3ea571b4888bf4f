"""How long the driver waits, what it holds in memory, and what it gives back: windows, polls,
drains, other processes.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.plans import PROMPT, ask, run
from winnow.driver.jobs import Job
from winnow.driver.open_calls import OpenCalls
from winnow.driver.run import Driver
from winnow.identity.code import get_ledger_identity
from winnow.keys import compute_request_key
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.records import Answer, Decoding
from winnow.requests import Generate, Message, Plan, Request, Result, TooLong
from winnow.strategies.concatenation import Concatenation
from winnow.testing import ScriptedReader, ScriptedServer, make_context, make_question


def ask_two_roles() -> Plan[Answer]:
    """Ask the reader and the judge at once."""
    yield [
        Generate((Message("user", role),), Decoding(), role=role) for role in ("reader", "judge")
    ]
    return Answer("", unknown=True)


def test_no_more_plans_than_the_window_are_active(tmp_path: Path) -> None:
    """Six plans in a window of two; the next one starts when one has ended."""
    started = 0

    def jobs() -> Iterator[Job[Answer]]:
        nonlocal started
        for n in range(6):
            started += 1
            yield Job(n, ask([str(n)]))

    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        driver = Driver(build_engine_map(ScriptedReader()), ledger, max_active=2)
        most = max(started - ended for ended, _ in enumerate(driver.run(jobs())))
    assert (most, driver.stats.plans) == (2, 6)


@dataclass
class Watched(ScriptedReader):
    """Records what it was told to wait, and how much it returned last."""

    waits: list[float] = field(default_factory=list)
    last: int = -1

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:
        """Return what is finished."""
        results = super().collect(timeout)
        self.waits.append(timeout)
        self.last = len(results)
        return results


def test_the_last_collect_confirms_that_all_is_stored(tmp_path: Path) -> None:
    """An engine may wait while it is the only one; a last call without results says that nothing is
    left.
    """
    reader = Watched()
    run(tmp_path, [Job(1, ask(["a"]))], reader)
    assert reader.waits == [1.0, 0.0]
    assert reader.last == 0


def test_a_call_that_another_process_gives_up_is_taken_over(tmp_path: Path) -> None:
    """While another process may deliver, no engine waits; a released claim is made here."""
    path = tmp_path / "l.sqlite"
    reader = Watched()
    key = compute_request_key(
        get_ledger_identity(reader), Generate((Message("user", "a"),), Decoding())
    )
    with SqliteStore(path) as other, SqliteStore(path) as ledger:
        other.owner = "another-host:1:1:1"
        other.claim([key])
        driver = Driver(build_engine_map(reader), ledger)
        running = driver.run([Job(1, ask(["a"])), Job(2, ask(["b"]))])
        assert next(running).tag == 2
        assert reader.waits == [0.0]
        other.release([key])
        assert next(running).tag == 1
    assert reader.prompts == ["b", "a"]
    assert driver.stats.external == 0
    assert driver._open_calls == OpenCalls()


def test_a_prompt_that_is_too_long_is_no_longer_claimed(tmp_path: Path) -> None:
    """Another process may then try it, for example on a server with a longer context."""
    path, sent = tmp_path / "l.sqlite", []

    class Narrow(ScriptedReader):
        def submit(self, requests: Sequence[Request]) -> None:
            sent.extend(requests)
            super().submit(requests)

        def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result | TooLong]]:
            return [
                (request, TooLong("long") if len(request.messages[-1].content) > 110 else result)  # type: ignore[union-attr]
                for request, result in super().collect(timeout)
            ]

    plan = Concatenation(PROMPT, Decoding()).plan(
        make_question(), [make_context(n, f"{n}" * 40) for n in (1, 2, 3)]
    )
    with SqliteStore(path) as ledger, SqliteStore(path) as other:
        other.owner = "another-host:1:1:1"
        reader = Narrow()
        driver = Driver(build_engine_map(reader), ledger)
        list(driver.run([Job(1, plan)]))
        assert driver._open_calls == OpenCalls()
        key = compute_request_key(get_ledger_identity(reader), sent[0])
        assert other.claim([key]) == {key}


@dataclass
class Confirming(ScriptedServer):
    """A server that forgets its results when it is asked again, because they are stored then."""

    collects: int = 0

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:
        """Count how often results are taken."""
        self.collects += 1
        return super().collect(timeout)


def test_results_that_cannot_be_stored_are_not_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: the next `collect` would say that they are stored."""
    reader = Confirming(batch_size=1)
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        monkeypatch.setattr(ledger, "put", lambda *_: (_ for _ in ()).throw(OSError("no space")))
        with pytest.raises(OSError, match="no space"):
            list(
                Driver(build_engine_map(reader), ledger).run(
                    [Job(n, ask([str(n)])) for n in range(4)]
                )
            )
    assert reader.collects == 1


class Server(ScriptedServer):
    """A server that takes 0.2 s for each batch."""

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:
        """Return the batch after its time."""
        if self._pending:
            time.sleep(0.2)
        return super().collect(timeout)


def test_the_calls_of_a_batch_share_its_time(tmp_path: Path) -> None:
    """Four calls of one batch sum up to the time of the batch."""
    outcomes, _ = run(tmp_path, [Job(1, ask(["a", "b", "c", "d"]))], Server())
    assert 0.2 <= outcomes[1].usage[0].seconds < 0.4


class Later(Watched, ScriptedServer):
    """A server that answers at the fifth poll."""

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:
        """Return the results from the fifth poll on."""
        if len(self.waits) >= 5 or not self._pending:
            return super().collect(timeout)
        self.waits.append(timeout)
        return []


def test_two_servers_are_polled_with_pauses(tmp_path: Path) -> None:
    """Each is polled without waiting; then the driver waits a moment at one of them."""
    one, two = Later(identity="one"), Later(identity="two")
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        list(
            Driver(build_engine_map(one) | build_engine_map(two, "judge"), ledger).run(
                [Job(1, ask_two_roles())]
            )
        )
    assert one.waits[:4] == [0.0, 0.05, 0.0, 0.05]


def test_the_driver_sleeps_while_only_other_processes_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks into the ledger once per pause."""
    path = tmp_path / "l.sqlite"
    key = compute_request_key("scripted", Generate((Message("user", "a"),), Decoding()))
    pauses: list[float] = []

    class Counted(SqliteStore):
        looks = 0

        def get(self, keys: Sequence[bytes]) -> dict[bytes, Result]:
            self.looks += 1
            assert self.looks < 10, "no pause between looks"
            return super().get(keys)

    with SqliteStore(path) as other, Counted(path) as ledger:
        other.owner = "another-host:1:1:1"
        other.claim([key])

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            other.release([key])

        monkeypatch.setattr("winnow.driver.run.time.sleep", sleep)
        (outcome,) = Driver(build_engine_map(ScriptedReader()), ledger).run([Job(1, ask(["a"]))])
    assert outcome.result.text == "unknown"
    assert pauses == [0.2]


class Slow(ScriptedServer):
    """A server that is polled several times before it answers."""

    polls = 0

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:
        """Return the reply at the ninth poll."""
        if not self._pending:
            return []
        self.polls += 1
        time.sleep(0.02)
        return super().collect(timeout) if self.polls > 8 else []


def test_the_time_of_a_server_counts_from_the_submission(tmp_path: Path) -> None:
    """Not from the poll that returned the reply."""
    outcomes, _ = run(tmp_path, [Job(1, ask(["a"]))], Slow())
    assert outcomes[1].usage[0].seconds >= 0.16
