"""Claims: of a process that has ended on this host, of one elsewhere, and of names that
are none.
"""

import logging
import os
import socket
import sqlite3
import time
from pathlib import Path

import pytest

from winnow.cli import main
from winnow.ledger import claims
from winnow.ledger.claims import AwaitedClaims, describe_owner, has_lapsed, make_owner
from winnow.ledger.sqlite import SqliteStore


def test_a_claim_of_this_process_holds_whatever_its_lease() -> None:
    """The process lives; one with its id that started at another time has ended."""
    owner = make_owner()
    assert not has_lapsed(owner, expires=0.0, now=1.0)
    host, pid, start, number = owner.rsplit(":", 3)
    assert has_lapsed(f"{host}:{pid}:{start}9:{number}", expires=2.0, now=1.0)


def test_a_claim_from_elsewhere_holds_until_its_lease_ends() -> None:
    """Also if the host has the same name, but other process ids, as in a container."""
    for host in ("elsewhere", f"{socket.gethostname()}/anotherboot/anotherspace"):
        owner = f"{host}:{os.getpid()}:1:0"
        assert not has_lapsed(owner, expires=2.0, now=1.0)
        assert has_lapsed(owner, expires=0.5, now=1.0)


def test_a_name_that_is_none_has_lapsed() -> None:
    """As a damaged row may contain one."""
    assert has_lapsed("garbage", expires=2.0, now=1.0)


def test_the_stores_of_a_process_have_names_of_their_own() -> None:
    """So that one does not take another's claims."""
    assert len({make_owner() for _ in range(4)}) == 4


def _read_lease(path: Path) -> float:
    with sqlite3.connect(path) as db:
        return float(db.execute("SELECT expires FROM claims").fetchone()[0])


def test_claims_are_renewed_while_their_process_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a result that is stored, by a thread that ends with the store."""
    monkeypatch.setattr(claims, "RENEWAL_SECONDS", 0.01)
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        ledger.claim([b"a"])
        with ledger.transaction() as db:
            db.execute("UPDATE claims SET expires = 0")
        deadline = time.monotonic() + 10
        while not _read_lease(tmp_path / "l.sqlite") and time.monotonic() < deadline:
            time.sleep(0.01)
        assert 0 < _read_lease(tmp_path / "l.sqlite") - time.time() <= claims.LEASE_SECONDS < 60
        renewal = ledger._renewal
        assert renewal is not None
    assert not renewal._thread.is_alive()


def test_a_run_says_for_whom_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once for the same owners, and not before some seconds."""
    path = tmp_path / "l.sqlite"
    with SqliteStore(path) as ledger, caplog.at_level(logging.WARNING):
        with ledger.transaction() as db:
            db.executemany(
                "INSERT INTO claims VALUES (?, 'node3+x+y:71:1:0', 9e12)", [(b"a",), (b"b",)]
            )
        awaited = AwaitedClaims()
        awaited.describe(ledger, [b"a", b"b"])
        assert not caplog.text
        monkeypatch.setattr(claims, "_PATIENCE_SECONDS", 0.0)
        for _ in range(3):
            time.sleep(0.001)
            awaited.describe(ledger, [b"a", b"b"])
    assert caplog.text.count("Waiting for 2 calls that are claimed by process 71 of node3.") == 1
    assert describe_owner("garbage") == "process  of garbage"


def test_claims_of_other_hosts_are_released_by_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before their leases end; those of this host's living processes stay."""
    path = tmp_path / "l.sqlite"
    with SqliteStore(path) as living:
        living.claim([b"mine"])
        with living.transaction() as db:
            db.execute("INSERT INTO claims VALUES (?, 'node3+x+y:71:1:0', 9e12)", (b"a",))
        main(["ledger", "release", str(path)])
        assert capsys.readouterr().out.startswith("1 claims released")
        assert living.find_owners([b"mine", b"a"]) == {living.owner}
