"""Recovers a damaged ledger file: readable calls are kept, the others have to be rerun.

SQLite's own `.recover` is part of its shell, which Python does not include. A ledger has one table whose keys are uniform
hashes, so reading it range by range loses only the ranges whose pages are damaged.
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
"""How often a range is split by the key's next byte before its remainder is given up."""
_SIDE_FILES = ("-wal", "-shm")
_MAGIC = b"SQLite format 3\x00"


@dataclass(frozen=True, slots=True)
class Recovered:
    """How many calls were recovered, and where the damaged file is."""

    calls: int
    damaged: Path


def is_intact(path: Path) -> bool:
    """Return whether a ledger file is intact; one that does not exist yet is."""
    if not path.exists() or path.stat().st_size == 0:
        return True
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise LedgerError(
                f"{path} is not a ledger: it does not begin as an SQLite file. Move the file away to begin a new one."
            )
    try:
        with closing(sqlite3.connect(path, timeout=60)) as db:
            return bool(db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        return False


def recover(path: Path) -> Recovered:
    """Copy every readable call of a damaged file to a new one of its name; no other process may have the file open."""
    fresh = path.with_name(path.name + ".recovering")
    fresh.unlink(missing_ok=True)
    with closing(sqlite3.connect(fresh)) as new, closing(sqlite3.connect(path)) as old:
        new.executescript(SCHEMA)
        old.execute("PRAGMA writable_schema=ON")  # a truncated file is refused as a whole without it
        for row in _readable(old, b"", None, 0):
            if checksum(row[0], row[3]) == row[-1]:
                new.execute("INSERT OR IGNORE INTO calls VALUES (?,?,?,?,?,?,?)", row)
        new.commit()
        calls = int(new.execute("SELECT COUNT(*) FROM calls").fetchone()[0])
    damaged = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
    for suffix in _SIDE_FILES:
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(damaged.with_name(damaged.name + suffix))
    path.rename(damaged)
    fresh.rename(path)
    return Recovered(calls, damaged)


def _readable(db: sqlite3.Connection, prefix: bytes, end: bytes | None, depth: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows whose key begins with `prefix`; where pages are damaged, those that a finer search can read."""
    try:
        yield from _between(db, prefix, end, "ASC").fetchall()
    except sqlite3.DatabaseError:
        if depth < _MAX_DEPTH:
            for byte in range(256):
                first = prefix + bytes([byte])
                after = prefix + bytes([byte + 1]) if byte < 255 else end
                yield from _readable(db, first, after, depth + 1)
            return
        for order in ("ASC", "DESC"):
            with suppress(sqlite3.DatabaseError):
                yield from _between(db, prefix, end, order)


def _between(db: sqlite3.Connection, low: bytes, high: bytes | None, order: str) -> sqlite3.Cursor:
    bound = "" if high is None else "AND key < ?"
    values = (low,) if high is None else (low, high)
    return db.execute(f"SELECT {COLUMNS} FROM calls WHERE key >= ? {bound} ORDER BY key {order}", values)  # noqa: S608 (constants)
