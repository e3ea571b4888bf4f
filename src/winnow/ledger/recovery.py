"""Recover the readable calls of a damaged ledger file; unreadable calls must be rerun.

SQLite's own `.recover` command is part of its shell, which Python does not include. The keys of the calls are uniformly
distributed hashes, so reading the table range by range loses only the ranges whose pages are damaged.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from winnow.errors import LedgerError
from winnow.ledger.rows import COLUMNS, SCHEMA, checksum

_MAX_DEPTH = 2
"""Maximum number of times that a range is split by the next byte of the key before its unreadable rows are skipped."""
_SIDE_FILES = ("-wal", "-shm")
_MAGIC = b"SQLite format 3\x00"


@dataclass(frozen=True, slots=True)
class Recovered:
    """Result of a recovery: the number of recovered calls and the new path of the damaged file."""

    calls: int
    damaged: Path


def is_intact(path: Path) -> bool:
    """Return whether a ledger file is intact. A missing or empty file counts as intact.

    Raises:
        LedgerError: If the file is not an SQLite file.

    """
    if not path.exists() or path.stat().st_size == 0:
        return True
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise LedgerError(
                f"{path} is not a ledger: it lacks the header of an SQLite file. Move the file away to start a new ledger."
            )
    try:
        with closing(sqlite3.connect(path, timeout=60)) as db:
            return bool(db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        return False


def recover(path: Path) -> Recovered:
    """Replace a damaged file with a new one that contains every readable call, and keep it under another name.

    No other process may have the file open.
    """
    recovered = path.with_name(path.name + ".recovering")
    recovered.unlink(missing_ok=True)
    with closing(sqlite3.connect(recovered)) as new, closing(sqlite3.connect(path)) as old:
        new.executescript(SCHEMA)
        old.execute("PRAGMA writable_schema=ON")  # without it, SQLite refuses to read a truncated file at all
        for row in _read_rows(old, b"", None, 0):
            if checksum(row[0], row[3]) == row[-1]:
                new.execute("INSERT OR IGNORE INTO calls VALUES (?,?,?,?,?,?,?)", row)
        new.commit()
        calls = int(new.execute("SELECT COUNT(*) FROM calls").fetchone()[0])
    damaged = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
    for suffix in _SIDE_FILES:
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(damaged.with_name(damaged.name + suffix))
    path.rename(damaged)
    recovered.rename(path)
    return Recovered(calls, damaged)


def _read_rows(db: sqlite3.Connection, prefix: bytes, end: bytes | None, depth: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows whose key starts with `prefix`. If pages are damaged, split the range and yield the readable rows."""
    try:
        yield from _select_range(db, prefix, end, "ASC").fetchall()
    except sqlite3.DatabaseError:
        if depth < _MAX_DEPTH:
            for byte in range(256):
                subprefix = prefix + bytes([byte])
                subrange_end = prefix + bytes([byte + 1]) if byte < 255 else end
                yield from _read_rows(db, subprefix, subrange_end, depth + 1)
            return
        for order in ("ASC", "DESC"):
            with suppress(sqlite3.DatabaseError):
                yield from _select_range(db, prefix, end, order)


def _select_range(db: sqlite3.Connection, start: bytes, end: bytes | None, order: str) -> sqlite3.Cursor:
    upper_bound = "" if end is None else "AND key < ?"
    parameters = (start,) if end is None else (start, end)
    return db.execute(f"SELECT {COLUMNS} FROM calls WHERE key >= ? {upper_bound} ORDER BY key {order}", parameters)  # noqa: S608 (constants)
