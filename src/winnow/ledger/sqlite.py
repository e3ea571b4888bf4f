"""A call store in an SQLite file.

SQLite in WAL mode is available on every machine, survives `kill -9` at any moment, and serves
several processes at once. Before a process makes a call, it claims the call's key, so that no other
process makes the same call. The claim holds until the result is stored, the process ends, or the
lease of the claim expires. Requests contain no secrets, so the file contains none either.
"""

from __future__ import annotations

import fcntl
import logging
import math
import os
import sqlite3
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from winnow.errors import DiskFullError, LedgerError
from winnow.ledger.claims import LEASE_SECONDS, Renewal, has_lapsed, make_owner
from winnow.ledger.locks import BUSY_SECONDS, retry_while_locked
from winnow.ledger.recovery import is_intact, recover
from winnow.ledger.rows import (
    COLUMNS,
    RESULT_COLUMNS,
    decode_text,
    encode_rows,
    migrate,
    read_result,
)
from winnow.requests import Request, Result

_RECOVERY_SECONDS = 60.0
"""How long a process waits for another one that has a damaged file open and may be recovering it.
"""
_PAGES_PER_CHECKPOINT = 4000
"""Number of pages in the write-ahead log after which they are copied to the file. A page that
several commits write is copied once, so that a large number saves time. The log then has up to 16
MB."""
_KEYS_PER_QUERY = 500
"""Number of keys per query, because SQLite limits the number of parameters."""
_log = logging.getLogger(__name__)


class SqliteStore:
    """A ledger file, used as a context manager.

    Several processes can use the same file, each with its own SqliteStore. Opening the file
    recovers it if it is truncated or corrupt: readable calls are copied to a new file of the same
    name, the damaged file is kept next to it, and a warning is logged (see
    `winnow.ledger.recovery`).

    Attributes:
        path: Path of the file.
        owner: Name under which this store claims calls, made of the host, the process and the
            number of the store.
    """

    def __init__(self, path: Path | str) -> None:
        """Store the path. The file is opened on entering the context."""
        self.path = Path(path)
        self.owner = make_owner()
        self._connection: sqlite3.Connection | None = None
        self._lock_file: int | None = None
        self._renewal: Renewal | None = None

    def __enter__(self) -> SqliteStore:
        """Open the file, and create it and its folder if they do not exist."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock_file = self._open_lock_file()
        try:
            if not is_intact(self.path):
                self._recover()
            fcntl.flock(self._lock_file, fcntl.LOCK_SH)
            self._connection = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None
            )
            retry_while_locked(self._prepare_connection)
        except sqlite3.DatabaseError as error:
            os.close(self._lock_file)
            raise LedgerError(
                f"The ledger {self.path} cannot be opened ({error}). Move the file away to start a "
                "new ledger."
            ) from error
        except BaseException:
            os.close(self._lock_file)
            raise
        self._renewal = Renewal(self._renew_claims)
        return self

    def _renew_claims(self) -> None:
        """Renew this owner's claims by a connection of the calling thread."""
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(self.path, timeout=LEASE_SECONDS / 9)) as db,
            db,
        ):
            if db.execute("SELECT 1 FROM claims WHERE owner = ? LIMIT 1", (self.owner,)).fetchone():
                db.execute(
                    "UPDATE claims SET expires = ? WHERE owner = ?",
                    (time.time() + LEASE_SECONDS, self.owner),
                )

    def _prepare_connection(self) -> None:
        """Set the options of the connection and bring the schema up to date."""
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=NORMAL")
        self.connection.execute(f"PRAGMA wal_autocheckpoint={_PAGES_PER_CHECKPOINT}")
        migrate(self.connection)
        self.connection.text_factory = decode_text

    def rebuild(self) -> None:
        """Rebuild the file from its readable calls, keeping the old one. The store must be closed.

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

        Args:
            only_if_damaged: Whether to keep the file if it is intact once no other process has it
                open.

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
                        f"The ledger {self.path} is damaged, and another process has it open. Stop "
                        "that process and run this command again, which recovers the file."
                    ) from None
                time.sleep(0.1)
        if only_if_damaged and is_intact(self.path):
            return
        result = recover(self.path)
        _log.warning(
            "The ledger %s was damaged: %d calls were recovered; the damaged file is kept as %s. "
            "Lost calls will be rerun.",
            self.path,
            result.num_calls,
            result.damaged_path,
        )

    def __exit__(self, *error: Any) -> None:
        """Release this process's claims and close the file."""
        connection, self._connection = self.connection, None
        if self._renewal is not None:
            self._renewal.stop()
        with suppress(sqlite3.Error):  # claims expire by themselves once this process has ended
            connection.execute("DELETE FROM claims WHERE owner = ?", (self.owner,))
        connection.close()
        if self._lock_file is not None:
            os.close(self._lock_file)

    @property
    def connection(self) -> sqlite3.Connection:
        """Return the connection to the open database."""
        if self._connection is None:
            raise LedgerError(
                f"The ledger {self.path} is not open; use `with SqliteStore(path) as ledger:`."
            )
        return self._connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction that commits at the end of the block or rolls back on any exception.

        Raises:
            DiskFullError: If the disk is full.
            LedgerError: If SQLite reports any other error.
        """
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
                f"The ledger {self.path} could not be written ({error}). Its content is intact. "
                "Correct the cause, for example free some disk space, and run again."
            ) from error
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Result]:
        """Return the stored results by key. Keys without a result are omitted.

        Damaged rows are set aside, so that their calls are repeated (see `set_aside`).
        """
        results: dict[bytes, Result] = {}
        damaged_keys: list[bytes] = []
        try:
            for row in self._execute_in(f"SELECT {RESULT_COLUMNS} FROM calls", keys):  # noqa: S608 (constants)
                result = read_result(*row)
                if result is None:
                    damaged_keys.append(row[0])
                else:
                    results[row[0]] = result
        except sqlite3.DatabaseError as error:
            raise LedgerError(
                f"The ledger {self.path} is damaged ({error}). Run the command again, which "
                "recovers the file."
            ) from error
        if damaged_keys:
            self.set_aside(damaged_keys)
        return results

    def read_rows(self, keys: Sequence[bytes]) -> dict[bytes, tuple[str, float]]:
        """Return the encoded results and storage times of these keys, without damaged rows."""
        rows = self._execute_in(
            "SELECT key, CAST(value AS BLOB), seconds, crc, created FROM calls", keys
        )
        return {
            row[0]: (row[1].decode(), row[4]) for row in rows if read_result(*row[:4]) is not None
        }

    def _execute_in(self, statement: str, keys: Sequence[bytes]) -> Iterator[tuple[Any, ...]]:
        """Execute a statement for the rows with these keys, and yield the rows that it returns."""
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            chunk = keys[start : start + _KEYS_PER_QUERY]
            yield from self.connection.execute(
                f"{statement} WHERE key IN ({','.join('?' * len(chunk))})", chunk
            ).fetchall()

    def set_aside(self, keys: Sequence[bytes]) -> None:
        """Log a warning and move damaged rows to `damaged`, so that their calls are repeated."""
        now = time.time()
        query = f"SELECT {RESULT_COLUMNS} FROM calls WHERE key = ?"  # noqa: S608 (constants)
        with self.transaction() as db:
            for key in keys:
                row = db.execute(query, (key,)).fetchone()
                if (
                    row is not None and read_result(*row) is None
                ):  # another process may have replaced it
                    db.execute(
                        f"INSERT INTO damaged SELECT {COLUMNS}, ? FROM calls WHERE key = ?",  # noqa: S608 (constants)
                        (now, key),
                    )
                    db.execute("DELETE FROM calls WHERE key = ?", (key,))
        _log.warning(
            "The ledger %s: %d damaged calls were set aside (%s); they will be rerun.",
            self.path,
            len(keys),
            ", ".join(key.hex()[:12] for key in keys[:5]) + (", ..." if len(keys) > 5 else ""),
        )

    def put(self, engine: str, rows: Iterable[tuple[bytes, Request, Result, float]]) -> None:
        """Store results in one commit, and release the claims on their calls.

        Args:
            engine: Identity of the engine that computed the results.
            rows: Tuples of key, request, result and engine time in seconds.

        Raises:
            LedgerError: If a result contains NaN. The other results are stored first.
        """
        now = time.time()
        encoded_rows, errors = encode_rows(engine, rows)
        rows_to_insert = [(*row, now, checksum) for *row, checksum in encoded_rows]
        with self.transaction() as db:
            db.executemany("INSERT OR IGNORE INTO calls VALUES (?,?,?,?,?,?,?)", rows_to_insert)
            deque(
                self._execute_in("DELETE FROM claims", [row[0] for row in encoded_rows]), maxlen=0
            )
        if errors:
            self.release(list(errors))
            raise next(iter(errors.values()))

    def claim(self, keys: Sequence[bytes]) -> set[bytes]:
        """Claim and return keys that are neither stored nor validly claimed by another owner."""
        now = time.time()
        with self.transaction() as db:
            unavailable_keys = {key for (key,) in self._execute_in("SELECT key FROM calls", keys)}
            for key, owner, expires in self._execute_in(
                "SELECT key, owner, expires FROM claims", keys
            ):
                if owner != self.owner and not has_lapsed(owner, expires, now):
                    unavailable_keys.add(key)
            claimed = set(keys) - unavailable_keys
            claims = [(key, self.owner, now + LEASE_SECONDS) for key in claimed]
            db.executemany("INSERT OR REPLACE INTO claims VALUES (?,?,?)", claims)
        return claimed

    def release(self, keys: Sequence[bytes]) -> None:
        """Release this owner's claims on calls that will not be made."""
        with self.transaction() as db:
            db.executemany(
                "DELETE FROM claims WHERE key = ? AND owner = ?",
                [(key, self.owner) for key in keys],
            )

    def find_owners(self, keys: Sequence[bytes]) -> set[str]:
        """Return the owners of the claims on these calls."""
        return {owner for (owner,) in self._execute_in("SELECT owner FROM claims", keys)}

    def release_lapsed_claims(self, *, elsewhere: bool = False) -> int:
        """Release and count the claims of ended local processes and expired claims of other hosts.

        Args:
            elsewhere: Whether to release the claims of other hosts before they expire.
        """
        now = time.time()
        with self.transaction() as db:
            rows = db.execute(
                "SELECT key, owner, expires FROM claims WHERE owner <> ?", (self.owner,)
            ).fetchall()
            lapsed = [
                (key,)
                for key, owner, expires in rows
                if has_lapsed(owner, -math.inf if elsewhere else expires, now)
            ]
            db.executemany("DELETE FROM claims WHERE key = ?", lapsed)
        return len(lapsed)

    def delete(self, keys: Sequence[bytes]) -> None:
        """Delete the results of these keys, so that the calls are repeated."""
        if keys:
            with self.transaction() as db:
                db.executemany("DELETE FROM calls WHERE key = ?", [(key,) for key in keys])

    def __len__(self) -> int:
        return int(self.connection.execute("SELECT COUNT(*) FROM calls").fetchone()[0])

    def compute_mean_seconds(self, engine: str) -> float | None:
        """Return the mean time of an engine's stored calls in seconds, or None if it has none."""
        value = self.connection.execute(
            "SELECT AVG(seconds) FROM calls WHERE engine = ?", (engine,)
        ).fetchone()[0]
        return None if value is None else float(value)
