"""A ledger on top of others: they are read, and never changed."""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.ledger.filled import filled
from winnow.errors import LedgerError
from winnow.ledger.layered import LayeredStore, connect_read_only
from winnow.ledger.sqlite import SqliteStore
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message

REQUEST = Generate((Message("user", "x"),), Decoding())
KEYS = [hashlib.sha256(bytes([number])).digest() for number in range(4)]


def _write(path: Path, *rows: tuple[int, str, float]) -> Path:
    with SqliteStore(path) as ledger:
        ledger.put(
            "engine",
            [(KEYS[number], REQUEST, Generation(text), seconds) for number, text, seconds in rows],
        )
    return path


def _read(results: object) -> dict[int, str]:
    return {KEYS.index(key): result.text for key, result in results.items()}  # type: ignore[attr-defined]


def test_results_come_from_the_first_ledger_that_has_them(tmp_path: Path) -> None:
    """The own ledger before the bases, these in their order; new results go to the own
    one alone.
    """
    one, two = (
        _write(tmp_path / "one", (0, "one", 1.0), (1, "one", 3.0)),
        _write(tmp_path / "two", (1, "two", 9.0), (2, "two", 9.0)),
    )
    own = _write(tmp_path / "own", (0, "own", 5.0))
    before = [path.read_bytes() for path in (one, two)]
    with LayeredStore(SqliteStore(own), [one, two]) as ledger:
        assert _read(ledger.get(KEYS)) == {0: "own", 1: "one", 2: "two"}
        assert ledger.claim(KEYS[2:]) == set(KEYS[2:])
        ledger.put("engine", [(KEYS[3], REQUEST, Generation("new"), 1.0)])
        assert _read(ledger.get(KEYS[3:])) == {3: "new"}
        ledger.delete(KEYS)
        assert _read(ledger.get(KEYS)) == {0: "one", 1: "one", 2: "two"}
        assert len(ledger) == 0
        assert ledger.compute_mean_seconds("engine") == 2.0
        assert ledger.compute_mean_seconds("other") is None
    assert [path.read_bytes() for path in (one, two)] == before


def test_a_damaged_call_of_a_base_is_missing(tmp_path: Path) -> None:
    """It is made again, and the base stays as it is."""
    base = _write(tmp_path / "base", (0, "good", 1.0), (1, "bad", 1.0))
    with sqlite3.connect(base) as db:
        db.execute("UPDATE calls SET value = replace(value, 'bad', 'BAD')")
    with LayeredStore(SqliteStore(tmp_path / "own"), [base]) as ledger:
        assert _read(ledger.get(KEYS)) == {0: "good"}


def test_a_base_that_is_none_is_named(tmp_path: Path) -> None:
    """A missing file and one that is no ledger; the own ledger is closed again."""
    own = SqliteStore(tmp_path / "own")
    with (
        pytest.raises(LedgerError, match=r"nothing does not exist\. Correct paths\.base_ledgers"),
        LayeredStore(own, [tmp_path / "nothing"]),
    ):
        pass
    (tmp_path / "text").write_text("no database" * 100)
    with (
        pytest.raises(LedgerError, match=r"text cannot be read \(file is not a database\)"),
        LayeredStore(own, [tmp_path / "text"]),
    ):
        pass
    with pytest.raises(LedgerError, match="is not open"):
        len(own)


def test_calls_of_a_base_are_copied_if_they_are_to_be_kept(tmp_path: Path) -> None:
    """A shard's ledger is merged on a machine that lacks the base; the time of storage stays."""
    base, own = _write(tmp_path / "base", (0, "one", 3.0), (1, "two", 4.0)), tmp_path / "own"
    with LayeredStore(SqliteStore(own), [base], keeps=True) as ledger:
        assert _read(ledger.get([KEYS[0]])) == {0: "one"}
    with SqliteStore(own) as ledger, SqliteStore(base) as original:
        assert _read(ledger.get(KEYS)) == {0: "one"}
        rows = [one.read_rows([KEYS[0]]) for one in (ledger, original)]
        assert rows[0] == rows[1]


@pytest.mark.parametrize("log", [b"", b"frames"])
def test_a_base_in_a_folder_without_permission_is_read_if_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: bytes
) -> None:
    """SQLite may create no files there; calls in a log beside the file would be missing."""

    class Refused(sqlite3.Connection):
        def execute(self, *_: object) -> sqlite3.Cursor:  # type: ignore[override]
            raise sqlite3.OperationalError("unable to open database file")

    connect = sqlite3.connect

    def connect_or_refuse(address: str, **kwargs: object) -> sqlite3.Connection:
        more = {} if "immutable" in address else {"factory": Refused}
        return connect(address, **kwargs, **more)  # type: ignore[call-overload]

    filled(tmp_path / "base", "m", "ab")
    (tmp_path / "base-wal").write_bytes(log)
    monkeypatch.setattr(sqlite3, "connect", connect_or_refuse)
    if log:
        with pytest.raises(sqlite3.OperationalError):
            connect_read_only(tmp_path / "base")
    else:
        with closing(connect_read_only(tmp_path / "base")) as db:
            assert db.execute("SELECT COUNT(*) FROM calls").fetchone() == (2,)


def test_calls_that_others_add_to_a_base_are_seen(tmp_path: Path) -> None:
    """A file that is opened as immutable would not be read again."""
    filled(tmp_path / "base", "m", "a")
    with closing(connect_read_only(tmp_path / "base")) as db:
        assert db.execute("SELECT COUNT(*) FROM calls").fetchone() == (1,)
        filled(tmp_path / "base", "m", "b" * 1 + "cdefgh")
        assert db.execute("SELECT COUNT(*) FROM calls").fetchone() == (8,)
