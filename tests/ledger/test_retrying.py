"""A ledger that hides replies without text, so that they are requested again, once."""

from pathlib import Path

import pytest

from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.errors import ReaderError
from winnow.ledger.retrying import RetryingStore
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.records import Answer, Decoding
from winnow.requests import Generate, Generation, Message, Plan
from winnow.sweeps.dry_run import estimate_cost
from winnow.testing import ScriptedReader


def plan(text: str) -> Plan[Answer]:
    (reply,) = yield [Generate((Message("user", text),), Decoding())]
    return Answer(reply.text, unknown=False)


@pytest.mark.parametrize("reply", ["A", " \n"])
def test_only_the_run_s_own_empty_replies_are_requested_again(tmp_path: Path, reply: str) -> None:
    """Of three empty replies, those to this run's two prompts; one that is empty again is kept, not
    asked a third time.
    """
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        silent = Driver(build_engine_map(ScriptedReader(lambda _: "")), ledger)
        list(silent.run(Job(text, plan(text)) for text in "abc"))
        retrying = RetryingStore(ledger, keep=True)
        engines = build_engine_map(ScriptedReader(lambda _: reply))
        estimate = estimate_cost(
            lambda: [Job(text, plan(text)) for text in "ab"], engines, retrying
        )["reader"]
        assert (estimate.stored, estimate.missing, len(retrying)) == ((0, 0), (2, 2), 3)
        driver = Driver(engines, RetryingStore(ledger))
        outcomes = list(driver.run(Job((text, n), plan(text)) for text in "ab" for n in range(2)))
        assert {outcome.result.text for outcome in outcomes} == {reply}
        again = Driver(engines, driver.ledger)
        list(again.run(Job(text, plan(text)) for text in "ab"))
        assert (driver.stats.executed, again.stats.executed, len(ledger)) == (2, 0, 3)
        replayed = Driver(engines, ledger)
        assert {
            outcome.tag: outcome.result.text
            for outcome in replayed.run(Job(text, plan(text)) for text in "abc")
        } == {
            "a": reply,
            "b": reply,
            "c": "",
        }
        assert replayed.stats.executed == 0


def test_it_is_a_ledger_like_the_one_inside(tmp_path: Path) -> None:
    """Claims, their release, times and lengths are those of the ledger."""
    with RetryingStore(SqliteStore(tmp_path / "l.sqlite")) as ledger:
        assert ledger.claim([b"k"]) == {b"k"}
        ledger.release([b"k"])
        assert ledger.find_owners([b"k"]) == set()
        assert ledger.compute_mean_seconds("m") is None
        assert len(ledger) == 0


def test_a_run_that_fails_keeps_the_replies_that_it_did_not_request(tmp_path: Path) -> None:
    """They were paid for, and finished cells are made of them."""

    def fail(_: str) -> str:
        raise ReaderError("the key has expired")

    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        silent = Driver(build_engine_map(ScriptedReader(lambda _: "")), ledger)
        list(silent.run(Job(n, plan(f"{n}")) for n in range(100)))
        reader = ScriptedReader(fail, capacity=4)
        with pytest.raises(ReaderError):
            list(
                Driver(build_engine_map(reader), RetryingStore(ledger)).run(
                    Job(n, plan(f"{n}")) for n in range(100)
                )
            )
        assert 96 <= len(ledger) < 100


def test_a_reply_that_another_process_stored_meanwhile_stays(tmp_path: Path) -> None:
    """It is paid for, and the other process's cells are made of it."""
    keys = [bytes([number]) * 32 for number in range(3)]
    request = Generate((Message("user", "x"),), Decoding())
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        ledger.put("m", [(key, request, Generation(""), 1.0) for key in keys])
        first, second = RetryingStore(ledger), RetryingStore(ledger)
        assert first.get(keys) == second.get(keys) == {}
        assert first.claim(keys) == set(keys)
        ledger.put("m", [(key, request, Generation("paid"), 1.0) for key in keys])
        assert second.claim(keys) == set()
        assert {result.text for result in ledger.get(keys).values()} == {"paid"}  # type: ignore[union-attr]


REQUEST = Generate((Message("user", "x"),), Decoding())


@pytest.mark.parametrize("keep", [False, True])
def test_a_claim_deletes_the_hidden_reply_alone(tmp_path: Path, keep: bool) -> None:
    """Neither other replies, nor the new one at a later claim; a dry run deletes none."""
    key, other = b"k" * 32, b"o" * 32
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        for own, text in ((key, ""), (other, "B")):
            ledger.put("m", [(own, REQUEST, Generation(text), 1.0)])
        retrying = RetryingStore(ledger, keep=keep)
        assert retrying.get([key, other]).keys() == {other}
        retrying.claim([key, other])
        assert ledger.get([key, other]).keys() == ({key, other} if keep else {other})
        retrying.put("m", [(key, REQUEST, Generation("A"), 1.0)])
        retrying.claim([key])
        assert ledger.get([key, other]).keys() == {key, other}
