"""A call store in an SQLite file.

SQLite in WAL mode is available on every machine, survives `kill -9` at any moment, and serves several processes at once.
Requests contain no secrets, so neither does the file.
"""

from __future__ import annotations

import fcntl
import itertools
import logging
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random

from winnow.errors import DiskFullError, LedgerError
from winnow.ledger.recovery import is_intact, recover
from winnow.ledger.rows import COLUMNS, IS_EMPTY, RESULT_COLUMNS, checksum, decode_text, encode, migrate, read_result
from winnow.records import Request, Result

if TYPE_CHECKING:
    from types import TracebackType

LEASE_SECONDS = 600.0
_BUSY_SECONDS = 60.0
_RECOVERY_SECONDS = 60.0
"""How long a process waits for another one that has a damaged file open, and may be recovering it."""
_OWNER_NUMBERS = itertools.count()
_KEYS_PER_QUERY = 500
_log = logging.getLogger(__name__)


class SqliteStore:
    """A ledger file, used as a context manager.

    Several processes can use the same file, each with its own SqliteStore. Opening the file recovers it if it is truncated
    or corrupt: readable calls are copied to a new file of the same name, the damaged file is kept beside it, and a warning
    is logged (see `winnow.ledger.recovery`).
    """

    def __init__(self, path: Path | str) -> None:
        """Store the path. The file is opened on entering the context."""
        self.path = Path(path)
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{_start_time(os.getpid())}:{next(_OWNER_NUMBERS)}"
        self._connection: sqlite3.Connection | None = None
        self._lock_file: int | None = None

    def __enter__(self) -> SqliteStore:
        """Open the file, and create it and its folder if they do not exist."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock_file = self._open_lock_file()
        try:
            if not is_intact(self.path):
                self._recover()
            fcntl.flock(self._lock_file, fcntl.LOCK_SH)
            self._connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
            _retry_while_locked(self._set_up)
        except sqlite3.DatabaseError as error:
            os.close(self._lock_file)
            raise LedgerError(
                f"The ledger {self.path} cannot be opened ({error}). Move it away to start a new ledger."
            ) from error
        except BaseException:
            os.close(self._lock_file)
            raise
        return self

    def _set_up(self) -> None:
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=NORMAL")
        migrate(self.connection)
        self.connection.text_factory = decode_text

    def rebuild(self) -> None:
        """Copy the readable calls to a new file, and keep the former one beside it; the store must not be open.

        Raises:
            LedgerError: If another process has the file open.

        """
        self._lock_file = self._open_lock_file()
        try:
            self._recover(only_if_damaged=False)
        finally:
            os.close(self._lock_file)

    def _open_lock_file(self) -> int:
        return os.open(self.path.with_name(self.path.name + ".lock"), os.O_CREAT | os.O_RDWR, 0o644)

    def _recover(self, *, only_if_damaged: bool = True) -> None:
        """Recover a damaged file, or wait until another process has recovered it.

        Raises:
            LedgerError: If another process keeps the damaged file open.

        """
        assert self._lock_file is not None
        deadline = time.monotonic() + _RECOVERY_SECONDS
        while True:
            try:
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise LedgerError(
                        f"The ledger {self.path} is damaged, and another process has it open. Stop that process and run "
                        "again; the file is then recovered."
                    ) from None
                time.sleep(0.1)
        if only_if_damaged and is_intact(self.path):
            return
        recovered = recover(self.path)
        _log.warning(
            "The ledger %s was damaged: %d calls were recovered; the damaged file is kept as %s. Lost calls will be rerun.",
            self.path,
            recovered.calls,
            recovered.damaged,
        )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Release this process's claims and close the file."""
        connection, self._connection = self.connection, None
        with suppress(sqlite3.Error):  # claims expire by themselves once this process has ended
            connection.execute("DELETE FROM claims WHERE owner = ?", (self.owner,))
        connection.close()
        if self._lock_file is not None:
            os.close(self._lock_file)

    @property
    def connection(self) -> sqlite3.Connection:
        """Return the open database, for `winnow.ledger.tools`."""
        if self._connection is None:
            raise LedgerError(f"The ledger {self.path} is not open; use `with SqliteStore(path) as ledger:`.")
        return self._connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction on the database, which is committed as a whole or rolled back on any exception."""
        db = self.connection
        try:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            disk_full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            error_type = DiskFullError if disk_full else LedgerError
            raise error_type(
                f"The ledger {self.path} could not be written ({error}). Its content is intact; run again."
            ) from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Result]:
        """Return the stored results by key. Damaged rows are set aside, with a warning, so that their calls are made again."""
        results: dict[bytes, Result] = {}
        damaged: list[bytes] = []
        try:
            for start in range(0, len(keys), _KEYS_PER_QUERY):
                chunk = keys[start : start + _KEYS_PER_QUERY]
                placeholders = ",".join("?" * len(chunk))
                query = f"SELECT {RESULT_COLUMNS} FROM calls WHERE key IN ({placeholders})"  # noqa: S608 (constants and "?")
                for key, *row in self.connection.execute(query, chunk):
                    result = read_result(*row)
                    if result is None:
                        damaged.append(key)
                    else:
                        results[key] = result
        except sqlite3.DatabaseError as error:
            raise LedgerError(
                f"The ledger {self.path} is damaged ({error}). Run again: it is recovered when opened."
            ) from error
        if damaged:
            self.set_aside(damaged)
        return results

    def set_aside(self, keys: Sequence[bytes]) -> None:
        """Move rows that are damaged to the table `damaged`, so that their calls are made again."""
        now, query = time.time(), f"SELECT {RESULT_COLUMNS} FROM calls WHERE key = ?"  # noqa: S608 (constants)
        with self.writing() as db:
            for key in keys:
                row = db.execute(query, (key,)).fetchone()
                if row is not None and read_result(*row[1:]) is None:  # not if another process has made the call again
                    db.execute(f"INSERT INTO damaged SELECT {COLUMNS}, ? FROM calls WHERE key = ?", (now, key))  # noqa: S608 (constants)
                    db.execute("DELETE FROM calls WHERE key = ?", (key,))
        _log.warning(
            "The ledger %s: %d damaged calls were set aside (%s); they will be rerun.",
            self.path,
            len(keys),
            ", ".join(key.hex()[:12] for key in keys[:5]) + (", ..." if len(keys) > 5 else ""),
        )

    def put(self, engine: str, rows: Iterable[tuple[bytes, Request, Result, float]]) -> None:
        """Store (key, request, result, seconds) rows in one commit, release their claims and renew the remaining claims.

        Raises:
            LedgerError: If a result contains NaN, after the others have been stored.

        """
        now = time.time()
        rows_to_insert = []
        refused: dict[bytes, LedgerError] = {}
        for key, request, result, seconds in rows:
            try:
                value = encode(result)
            except LedgerError as error:
                refused[key] = error
                continue
            rows_to_insert.append((key, type(request).__name__, engine, value, seconds, now, checksum(key, value.encode())))
        with self.writing() as db:
            db.executemany("INSERT OR IGNORE INTO calls VALUES (?,?,?,?,?,?,?)", rows_to_insert)
            db.executemany("DELETE FROM claims WHERE key = ?", [(row[0],) for row in rows_to_insert])
            db.execute("UPDATE claims SET expires = ? WHERE owner = ?", (now + LEASE_SECONDS, self.owner))
        if refused:
            self.release(list(refused))
            raise next(iter(refused.values()))

    def claim(self, keys: Sequence[bytes]) -> set[bytes]:
        """Claim the calls that are neither stored nor under a valid claim of another owner, and return their keys."""
        now = time.time()
        claimed: set[bytes] = set()
        with self.writing() as db:
            for key in keys:
                if db.execute("SELECT 1 FROM calls WHERE key = ?", (key,)).fetchone():
                    continue
                row = db.execute("SELECT owner, expires FROM claims WHERE key = ?", (key,)).fetchone()
                if row is None or row[0] == self.owner or _has_lapsed(row[0], row[1], now):
                    db.execute("INSERT OR REPLACE INTO claims VALUES (?,?,?)", (key, self.owner, now + LEASE_SECONDS))
                    claimed.add(key)
        return claimed

    def release(self, keys: Sequence[bytes]) -> None:
        """Release claims on calls that will not be made."""
        with self.writing() as db:
            db.executemany("DELETE FROM claims WHERE key = ? AND owner = ?", [(key, self.owner) for key in keys])

    def release_dead(self) -> int:
        """Release the claims of ended processes on this host and expired claims of other hosts; return how many."""
        now = time.time()
        with self.writing() as db:
            rows = db.execute("SELECT key, owner, expires FROM claims").fetchall()
            lapsed = [(key,) for key, owner, expires in rows if owner != self.owner and _has_lapsed(owner, expires, now)]
            db.executemany("DELETE FROM claims WHERE key = ?", lapsed)
        return len(lapsed)

    def forget_empty(self, engine: str) -> int:
        """Delete an engine's replies without text, so that they are requested again, and return how many there were."""
        with self.writing() as db:
            return db.execute(f"DELETE FROM calls WHERE engine = ? AND ({IS_EMPTY})", (engine,)).rowcount  # noqa: S608 (constants)

    def __len__(self) -> int:
        """Return the number of stored calls."""
        return int(self.connection.execute("SELECT COUNT(*) FROM calls").fetchone()[0])

    def mean_seconds(self, engine: str) -> float | None:
        """Compute the mean seconds of the stored calls of an engine, or return None if there are none."""
        value = self.connection.execute("SELECT AVG(seconds) FROM calls WHERE engine = ?", (engine,)).fetchone()[0]
        return None if value is None else float(value)


def _has_lapsed(owner: str, expires: float, now: float) -> bool:
    """Return whether a claim has lapsed: its process on this host has ended, or its lease has expired.

    Where the system does not tell when a process started, only the lease counts. An owner that cannot be read has ended.
    """
    try:
        host, pid, start, _ = owner.rsplit(":", 3)
        is_here = host == socket.gethostname() and bool(start)
        return _start_time(int(pid)) != start if is_here else expires < now
    except ValueError:
        return True


def _retry_while_locked(operation: Callable[[], None]) -> None:
    """Retry an operation that SQLite's busy timeout does not cover: opening a file while others open or close it."""
    locked_codes = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    retry = retry_if_exception(
        lambda error: (
            isinstance(error, sqlite3.OperationalError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in locked_codes
        )
    )
    Retrying(retry=retry, wait=wait_random(0.01, 0.1), stop=stop_after_delay(_BUSY_SECONDS), reraise=True)(operation)


def _start_time(pid: int) -> str:
    """Return when a process started, in clock ticks since boot, or "" if it has ended; it detects reused process ids."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
