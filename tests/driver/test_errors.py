"""A run that ends with an error: what is in flight is stored, and nothing more is sent."""

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.driver.test_run import _chat
from tests.driver.test_waiting import Later, ask_two_roles
from tests.plans import ask, run
from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.errors import ConfigError, ReaderError
from winnow.identity.code import get_ledger_identity
from winnow.keys import compute_request_key
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.records import Answer, Decoding
from winnow.requests import Generate, Message, Plan, Request, Result
from winnow.testing import ScriptedReader, ScriptedServer


class Failing(ScriptedServer):
    """A server that fails whenever it is polled."""

    polls = 0

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:
        """Fail."""
        self.polls += 1
        raise ReaderError("quota")


def test_a_failed_server_is_not_polled_again(tmp_path: Path) -> None:
    """Its first error ends the run."""
    reader = Failing()
    with pytest.raises(ReaderError):
        run(tmp_path, [Job(1, ask(["a"]))], reader)
    assert reader.polls == 1


class Silent(ScriptedServer):
    """A server that does not answer, until the calls reach their timeout."""

    polls = 0

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:
        """Return nothing, then fail."""
        time.sleep(0.02)
        self.polls += 1
        if self.polls > 10:
            raise ReaderError("timeout")
        return []


def test_a_silent_server_is_awaited_until_its_calls_time_out(tmp_path: Path) -> None:
    """After another engine failed, the server is told to start nothing, and the first error is
    raised.
    """
    silent = Silent(identity="judge")
    engines = build_engine_map(Failing(), "reader") | build_engine_map(silent, "judge")
    with SqliteStore(tmp_path / "l.sqlite") as ledger, pytest.raises(ReaderError, match="quota"):
        list(Driver(engines, ledger).run([Job(1, ask_two_roles())]))
    assert (silent.stopped, silent.polls) == (True, 11)


class Endless(ScriptedServer):
    """A server whose engine neither answers nor fails, and cannot be stopped."""

    def collect(self, timeout: float = 0.0) -> Sequence[tuple[Request, Result]]:
        """Return nothing."""
        time.sleep(0.01)
        return []

    def stop(self) -> None:
        """Fail."""
        raise RuntimeError


def test_an_engine_that_does_not_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a long silence; the first error is raised."""
    monkeypatch.setattr("winnow.driver.run._SILENT_SECONDS", 0.1)
    engines = build_engine_map(Failing(), "reader") | build_engine_map(
        Endless(identity="judge"), "judge"
    )
    with SqliteStore(tmp_path / "l.sqlite") as ledger, pytest.raises(ReaderError, match="quota"):
        list(Driver(engines, ledger).run([Job(1, ask_two_roles())]))


class OneByOne(ScriptedServer):
    """A server that returns one result at a time."""


@pytest.mark.parametrize("error", ["each plan", "refused request", "unknown role"])
def test_calls_in_flight_are_stored_after_an_error(tmp_path: Path, error: str) -> None:
    """Whatever ends the run, and however many plans fail while the rest of the paid
    calls comes in.
    """
    reader = OneByOne(batch_size=1)

    def fail(number: int) -> Plan[Answer]:
        yield [Generate((Message("user", str(number)),), Decoding())]
        if error == "each plan":
            raise ValueError(number)
        role, logprobs = ("judge", ()) if error == "unknown role" else ("reader", ("yes",))
        yield [
            Generate((Message("user", "again"),), Decoding(), role=role, token_logprobs=logprobs)
        ]
        return Answer("", unknown=True)

    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        with pytest.raises((ValueError, ConfigError)):
            list(
                Driver(build_engine_map(reader), ledger).run(
                    [Job(number, fail(number)) for number in range(10)]
                )
            )
        requests = [Generate((Message("user", str(number)),), Decoding()) for number in range(10)]
        assert (
            len(
                ledger.get(
                    [
                        compute_request_key(get_ledger_identity(reader), request)
                        for request in requests
                    ]
                )
            )
            == 10
        )


def test_a_local_engine_is_not_computed_on_after_an_error(tmp_path: Path) -> None:
    """Its calls cost nothing but time; only servers are waited for."""
    reader = ScriptedReader(batch_size=1)

    def ask_more() -> Plan[Answer]:
        yield [Generate((Message("user", str(number)),), Decoding()) for number in range(5)]
        return Answer("", unknown=True)

    def raise_after_one() -> Plan[Answer]:
        yield [Generate((Message("user", "first"),), Decoding())]
        raise ValueError

    with (
        SqliteStore(tmp_path / "l.sqlite") as ledger,
        pytest.raises(ValueError),  # noqa: PT011 (the plan's own)
    ):
        list(
            Driver(build_engine_map(reader), ledger).run(
                [Job(1, raise_after_one()), Job(2, ask_more())]
            )
        )
    assert reader.prompts == ["first"]


def test_a_server_that_hangs_does_not_keep_the_results_of_another(tmp_path: Path) -> None:
    """After an error both are asked in turn."""
    silent, judge = Silent(identity="reader"), Later(identity="judge")

    def plan() -> Plan[Answer]:
        yield [
            Generate((Message("user", role),), Decoding(), role=role)
            for role in ("reader", "judge", "rewriter")
        ]
        return Answer("", unknown=True)

    engines = (
        build_engine_map(silent)
        | build_engine_map(judge, "judge")
        | build_engine_map(Failing(), "rewriter")
    )
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        with pytest.raises(ReaderError, match="quota"):
            list(Driver(engines, ledger).run([Job(1, plan())]))
        assert len(ledger) == 1


def test_only_servers_with_calls_in_flight_are_stopped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not the one that failed, nor one that was never asked."""
    failing, idle = Failing(identity="reader"), ScriptedServer(identity="judge")
    engines = build_engine_map(failing, "reader") | build_engine_map(idle, "judge")
    with SqliteStore(tmp_path / "l.sqlite") as ledger, pytest.raises(ReaderError, match="quota"):
        list(Driver(engines, ledger).run([Job(1, ask(["a"]))]))
    assert (failing.stopped, idle.stopped, "in flight" in caplog.text) == (False, False, False)


def test_what_is_in_flight_is_not_awaited_after_an_interrupt(tmp_path: Path) -> None:
    """Ctrl-C ends the run at once."""
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        outcomes = Driver(build_engine_map(OneByOne(capacity=16)), ledger).run(
            Job(n, _chat([f"{n}"])) for n in range(16)
        )
        with pytest.raises(KeyboardInterrupt), closing(outcomes):
            next(outcomes)
            raise KeyboardInterrupt
        assert len(ledger) < 16
