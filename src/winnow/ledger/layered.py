"""A ledger that also reads the calls of other ledgers, which it never changes."""

import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from winnow.errors import LedgerError
from winnow.ledger.rows import COLUMNS, RESULT_COLUMNS, decode_text, read_result
from winnow.ledger.sqlite import SqliteStore
from winnow.ledger.wrapped import WrappedStore
from winnow.requests import Result

_KEYS_PER_QUERY = 500


@dataclass
class LayeredStore(WrappedStore):
    """A ledger on top of others. Results are looked up in all of them, and stored in the first.

    Attributes:
        ledger: Ledger that stores new calls.
        bases: SQLite files of ledgers that are only read. A damaged call of theirs counts as
            missing.
        keeps: Whether calls that a base answers are copied to `ledger`, as of a shard, whose ledger
            is merged where the bases are missing.
    """

    bases: Sequence[Path]
    keeps: bool = False
    _connections: list[sqlite3.Connection] = field(default_factory=list, repr=False)
    _stack: ExitStack = field(default_factory=ExitStack, repr=False)

    def __enter__(self) -> "LayeredStore":
        """Open all ledgers.

        Raises:
            LedgerError: If a base does not exist or is not a ledger.
        """
        with ExitStack() as stack:
            stack.enter_context(self.ledger)
            self._connections = [
                stack.enter_context(closing(_open_read_only(base))) for base in self.bases
            ]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        """Close all ledgers."""
        self._stack.__exit__(*error)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Result]:
        """Return the stored results by key, from the first ledger that has them."""
        results = self.ledger.get(keys)
        for connection in self._connections:
            missing_keys = [key for key in keys if key not in results]
            for start in range(0, len(missing_keys), _KEYS_PER_QUERY):
                found = _read_results(connection, missing_keys[start : start + _KEYS_PER_QUERY])
                if found and self.keeps and isinstance(self.ledger, SqliteStore):
                    self._copy(self.ledger, connection, list(found))
                results |= found
        return results

    def _copy(
        self, ledger: SqliteStore, connection: sqlite3.Connection, keys: Sequence[bytes]
    ) -> None:
        """Copy calls of a base to the first ledger, with the time at which they were stored."""
        placeholders = ",".join("?" * len(keys))
        query = f"SELECT {COLUMNS} FROM calls WHERE key IN ({placeholders})"  # noqa: S608 (constants and "?")
        rows = connection.execute(query, keys).fetchall()
        with ledger.transaction() as db:
            db.executemany("INSERT OR IGNORE INTO calls VALUES (?,?,?,?,?,?,?)", rows)

    def compute_mean_seconds(self, engine: str) -> float | None:
        """Return the mean time of an engine's calls in the first ledger that has any, or None."""
        seconds = self.ledger.compute_mean_seconds(engine)
        for connection in self._connections:
            if seconds is None:
                (seconds,) = connection.execute(
                    "SELECT AVG(seconds) FROM calls WHERE engine = ?", (engine,)
                ).fetchone()
        return seconds


def _open_read_only(path: Path) -> sqlite3.Connection:
    """Open a ledger file for reading; other processes may write to it meanwhile."""
    if not path.is_file():
        raise LedgerError(f"The base ledger {path} does not exist. Correct paths.base_ledgers.")
    try:
        return connect_read_only(path)
    except sqlite3.DatabaseError as error:
        raise LedgerError(
            f"The base ledger {path} cannot be read ({error}). `winnow ledger check {path}` "
            "repairs a damaged one."
        ) from error


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Connect to a ledger file for reading, also in a folder where SQLite may create no files."""
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    log = path.with_name(f"{path.name}-wal")
    is_whole = not log.is_file() or not log.stat().st_size
    for suffix in ("", "&immutable=1") if is_whole else ("",):
        connection = sqlite3.connect(address + suffix, uri=True, check_same_thread=False)
        try:
            connection.execute("SELECT 1 FROM calls LIMIT 1")
        except sqlite3.OperationalError:
            connection.close()
            if suffix or not is_whole:
                raise
        except sqlite3.DatabaseError:
            connection.close()
            raise
        else:
            break
    connection.text_factory = decode_text
    return connection


def count_calls(path: Path) -> int:
    """Return the number of calls in a ledger file."""
    with closing(connect_read_only(path)) as connection:
        return int(connection.execute("SELECT COUNT(*) FROM calls").fetchone()[0])


def _read_results(connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, Result]:
    placeholders = ",".join("?" * len(keys))
    query = f"SELECT {RESULT_COLUMNS} FROM calls WHERE key IN ({placeholders})"  # noqa: S608 (constants and "?")
    results = {row[0]: read_result(*row) for row in connection.execute(query, keys)}
    return {key: result for key, result in results.items() if result is not None}
