"""The ledger: every finished model call, addressed by what was asked; the only reader and writer of its file.

SQLite in WAL mode, because it is on every machine, survives kill -9 at any moment and serves several processes at
once. One row a call; a value is JSON with a checksum. Nothing secret is ever part of a request, so none gets in here.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import logging
import os
import socket
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

from winnow.errors import DiskFullError, LedgerError
from winnow.records import Generation, Pages, Passage, Request, Result, Score, Usage

if TYPE_CHECKING:
    from types import TracebackType

SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (
    key BLOB PRIMARY KEY, kind TEXT NOT NULL, engine TEXT NOT NULL, value TEXT NOT NULL, seconds REAL NOT NULL,
    created REAL NOT NULL, crc INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claims (key BLOB PRIMARY KEY, owner TEXT NOT NULL, expires REAL NOT NULL) WITHOUT ROWID;
"""
COLUMNS = "key, kind, engine, value, seconds, created, crc"
LEASE_SECONDS = 600.0
_PATIENCE_SECONDS = 60.0
_OPENED = itertools.count()
_CHUNK = 500
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_log = logging.getLogger(__name__)


class Ledger:
    """An open ledger file; use it as a context manager. Safe for several processes, each with its own Ledger.

    A file that is truncated or corrupt is recognised when it is opened: what can still be read goes on under the same
    name, the damaged file is kept beside it, and a warning says so (see `winnow.recovery`).
    """

    def __init__(self, path: Path | str) -> None:
        """Keep the path; the file is opened on entry."""
        self.path = Path(path)
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}:{next(_OPENED)}"
        self._connection: sqlite3.Connection | None = None
        self._lock: int | None = None

    def __enter__(self) -> Ledger:
        """Open the file, making it and its folder where missing."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_CREAT | os.O_RDWR, 0o644)
        try:
            self._mend()
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            self._connection = sqlite3.connect(self.path, timeout=_PATIENCE_SECONDS, isolation_level=None)
            _patiently(self._set_up)
        except sqlite3.DatabaseError as error:
            os.close(self._lock)
            raise LedgerError(
                f"The ledger {self.path} cannot be opened ({error}). Move it away to begin a new one."
            ) from error
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def _set_up(self) -> None:
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=NORMAL")
        self.connection.executescript(SCHEMA)

    def _mend(self) -> None:
        """Recover a damaged file, unless another process has it open."""
        from winnow.recovery import recover, sound

        assert self._lock is not None
        if sound(self.path):
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LedgerError(
                f"The ledger {self.path} is damaged, and another process has it open. Stop that process and run again: the "
                "file is then recovered."
            ) from None
        found = recover(self.path)
        _log.warning(
            "The ledger %s was damaged: %d calls were recovered, the damaged file is kept as %s. Calls that are lost are "
            "made again.", self.path, found.calls, found.damaged,
        )  # fmt: skip

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Give back this process's claims and close the file."""
        connection, self._connection = self.connection, None
        with suppress(sqlite3.Error):  # the claims lapse by themselves once this process has ended
            connection.execute("DELETE FROM claims WHERE owner = ?", (self.owner,))
        connection.close()
        if self._lock is not None:
            os.close(self._lock)

    @property
    def connection(self) -> sqlite3.Connection:
        """Return the open database, for `winnow.ledger_tools`."""
        if self._connection is None:
            raise LedgerError(f"The ledger {self.path} is not open; use `with Ledger(path) as ledger:`.")
        return self._connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give the database within one transaction; all of it is committed, or nothing."""
        db = self.connection
        try:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            kind = DiskFullError if "full" in str(error) else LedgerError
            raise kind(f"The ledger {self.path} could not be written ({error}). What it holds is whole; run again.") from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Result]:
        """Return the results that are stored under any of the keys; one that fails its checksum is dropped, and said so."""
        found: dict[bytes, Result] = {}
        damaged: list[bytes] = []
        try:
            for start in range(0, len(keys), _CHUNK):
                chunk = keys[start : start + _CHUNK]
                marks = ",".join("?" * len(chunk))
                rows = self.connection.execute(f"SELECT key, value, seconds, crc FROM calls WHERE key IN ({marks})", chunk)  # noqa: S608 (only "?" is put in)
                for key, value, seconds, crc in rows:
                    if checksum(key, value) == crc:
                        found[key] = decode(value, seconds)
                    else:
                        damaged.append(key)
        except sqlite3.DatabaseError as error:
            raise LedgerError(
                f"The ledger {self.path} is damaged ({error}). Run again: it is recovered when opened."
            ) from error
        if damaged:
            self._drop(damaged)
        return found

    def _drop(self, keys: Sequence[bytes]) -> None:
        _log.warning("The ledger %s: %d damaged calls were dropped; they are made again.", self.path, len(keys))
        with self.writing() as db:
            db.executemany("DELETE FROM calls WHERE key = ?", [(key,) for key in keys])

    def put(self, engine: str, rows: Iterable[tuple[bytes, Request, Result, float]]) -> None:
        """Store (key, request, result, seconds) rows in one commit, give back the claims on them, renew the others."""
        now = time.time()
        packed = []
        for key, request, result, seconds in rows:
            value = encode(result)
            packed.append((key, type(request).__name__, engine, value, seconds, now, checksum(key, value)))
        with self.writing() as db:
            db.executemany("INSERT OR IGNORE INTO calls VALUES (?,?,?,?,?,?,?)", packed)
            db.executemany("DELETE FROM claims WHERE key = ?", [(row[0],) for row in packed])
            db.execute("UPDATE claims SET expires = ? WHERE owner = ?", (now + LEASE_SECONDS, self.owner))

    def claim(self, keys: Sequence[bytes]) -> set[bytes]:
        """Claim calls; return the ones won. Claims of dead processes of this machine, and lapsed ones of others, are void."""
        now = time.time()
        won: set[bytes] = set()
        with self.writing() as db:
            for key in keys:
                if db.execute("SELECT 1 FROM calls WHERE key = ?", (key,)).fetchone():
                    continue
                row = db.execute("SELECT owner, expires FROM claims WHERE key = ?", (key,)).fetchone()
                if row is None or row[0] == self.owner or _lapsed(row[0], row[1], now):
                    db.execute("INSERT OR REPLACE INTO claims VALUES (?,?,?)", (key, self.owner, now + LEASE_SECONDS))
                    won.add(key)
        return won

    def release(self, keys: Sequence[bytes]) -> None:
        """Give back claims on calls that will not be made."""
        with self.writing() as db:
            db.executemany("DELETE FROM claims WHERE key = ? AND owner = ?", [(key, self.owner) for key in keys])

    def __len__(self) -> int:
        """Return how many calls are stored."""
        return int(self.connection.execute("SELECT COUNT(*) FROM calls").fetchone()[0])

    def mean_seconds(self, engine: str) -> float | None:
        """Return the mean seconds of a stored call of this engine, or None where there is none yet."""
        value = self.connection.execute("SELECT AVG(seconds) FROM calls WHERE engine = ?", (engine,)).fetchone()[0]
        return None if value is None else float(value)


def _lapsed(owner: str, expires: float, now: float) -> bool:
    """Tell whether a claim is over: its process has ended, or, on another host, where that is not seen, its time."""
    host, pid, started, _ = owner.rsplit(":", 3)
    return _started(int(pid)) != started if host == socket.gethostname() else expires < now


def _patiently(work: Callable[[], None]) -> None:
    """Do what fails at once, without SQLite's own patience, while another process opens or closes the same file."""
    again = retry_if_exception(lambda error: isinstance(error, sqlite3.OperationalError) and "locked" in str(error))
    Retrying(retry=again, wait=wait_random(0.01, 0.1), stop=stop_after_delay(_PATIENCE_SECONDS), reraise=True)(work)


def _started(pid: int) -> str:
    """Return when a process began, in ticks since boot, which tells it from a later one of its number; "" if it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def checksum(key: bytes, value: str) -> int:
    """Return the CRC-32 of a row: SQLite does not notice a flipped bit inside a text."""
    return zlib.crc32(value.encode(), zlib.crc32(key))


def encode(result: Result) -> str:
    """Return a result as JSON."""
    match result:
        case Generation():
            body: dict[str, Any] = {
                "text": result.text,
                "finish": result.finish,
                "in": result.usage.tokens_in,
                "out": result.usage.tokens_out,
            }
            if result.logprobs is not None:
                body["logprobs"] = result.logprobs
        case Score():
            body = {"score": result.value}
        case Pages():
            body = {"pages": [asdict(page) for page in result.passages]}
    return _ENCODER.encode(body)


def decode(value: str, seconds: float = 0.0) -> Result:
    """Return the result that `encode` wrote."""
    body: Mapping[str, Any] = orjson.loads(value)
    if "text" in body:
        logprobs = tuple(body["logprobs"]) if "logprobs" in body else None
        return Generation(body["text"], body["finish"], Usage(body["in"], body["out"], seconds), logprobs=logprobs)
    if "score" in body:
        return Score(body["score"])
    return Pages(tuple(Passage(**page) for page in body["pages"]))
