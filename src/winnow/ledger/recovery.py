"""Recover the readable calls of a damaged ledger file; unreadable calls must be rerun.

SQLite's own `.recover` command is part of its shell, which Python does not include. The keys of the calls are uniformly
distributed hashes, so reading the table range by range loses only the ranges whose pages are damaged. If the first page is
damaged, which describes the file, the first page of a new ledger takes its place: the tables of every ledger begin on the
same pages.
"""

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from winnow.errors import LedgerError
from winnow.ledger.rows import COLUMNS_AS_BYTES, MIGRATIONS, decode_text, migrate, read_result, schema_version

_MAX_DEPTH = 2
"""Maximum number of times that a range is split by the next byte of the key before its unreadable rows are skipped."""
_SIDE_FILES = ("-wal", "-shm")
_MAGIC = b"SQLite format 3\x00"
_PAGE_BYTES = 4096
_FORMAT_AT = slice(18, 20)
"""Offsets of the versions of the file format, for writing and for reading."""
_PAGE_COUNT_AT = 28
"""Offset of the number of pages in the first page, as four bytes with the most significant first."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """Result of a recovery: the number of recovered calls and the new path of the damaged file."""

    calls: int
    damaged: Path


def is_intact(path: Path) -> bool:
    """Return whether a ledger file can be used as it is: not whether each row can be read. A missing or empty file can.

    Raises:
        LedgerError: If the file is not an SQLite file and contains no call either.
        sqlite3.DatabaseError: If the file cannot be opened for another reason, such as a lock or an error of the disk.

    """
    if not path.exists() or path.stat().st_size == 0:
        return True
    with path.open("rb") as file:
        header = file.read(len(_MAGIC) + 4)
    if not header.startswith(_MAGIC):
        if not _has_calls(path):
            raise LedgerError(
                f"{path} is not a ledger: it lacks the header of an SQLite file. Move the file away to start a new ledger."
            )
        return False
    if not set(header[_FORMAT_AT]) <= {1, 2}:
        return False  # SQLite would only read it
    try:
        with closing(_connect(path)) as db:
            version = schema_version(db)
            if version is None or db.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
                return False
            return version > len(MIGRATIONS) or _has_known_tables(db)
    except UnicodeDecodeError:  # a damaged name in SQLite's own message
        return False
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise
        return False


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Return whether an error is about the content of a file, rather than about locks, the disk or open files."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is None or code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=60)
    db.text_factory = decode_text
    return db


def _has_known_tables(db: sqlite3.Connection) -> bool:
    """Return whether a file has the tables of a ledger, with the same columns, or none yet; further tables do not matter."""
    with closing(sqlite3.connect(":memory:")) as new:
        migrate(new)
        expected = _tables(new)
    tables = _tables(db)
    are_equal = all(tables.get(name, columns) == columns for name, columns in expected.items())
    return are_equal and ({"calls", "claims"} <= tables.keys() or not tables)


def _tables(db: sqlite3.Connection) -> dict[str, str]:
    return {name: " ".join(str(sql).split()) for name, sql in db.execute("SELECT name, sql FROM sqlite_master")}


def recover(path: Path) -> Recovered:
    """Replace a damaged file with a new one that contains every readable call, and keep it under another name.

    No other process may have the file open.
    """
    recovered = path.with_name(path.name + ".recovering")
    recovered.unlink(missing_ok=True)
    with closing(sqlite3.connect(recovered)) as new, _transplanted(path) as transplanted:
        migrate(new)
        for source in (path, transplanted):
            new.executemany("INSERT OR IGNORE INTO calls VALUES (?,?,?,?,?,?,?)", _calls(source))
            new.commit()
        set_aside = _set_aside_rows(path) or _set_aside_rows(transplanted)
        new.executemany("INSERT INTO damaged VALUES (?,?,?,?,?,?,?,?)", set_aside)
        new.commit()
        calls = int(new.execute("SELECT COUNT(*) FROM calls").fetchone()[0])
    damaged = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
    for suffix in _SIDE_FILES:
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(damaged.with_name(damaged.name + suffix))
    path.rename(damaged)
    recovered.rename(path)
    return Recovered(calls, damaged)


def _has_calls(path: Path) -> bool:
    with _transplanted(path) as copy:
        return next(_calls(copy), None) is not None


@contextmanager
def _transplanted(path: Path) -> Iterator[Path]:
    """Copy a file, with the first page of a new ledger in place of its own; the copy is removed afterwards."""
    with TemporaryDirectory(dir=path.parent, prefix=f"{path.name}.recovering-") as folder:
        new, copy = Path(folder) / "new.sqlite", Path(folder) / path.name
        with closing(sqlite3.connect(new)) as db:
            migrate(db)
        first_page = bytearray(new.read_bytes()[:_PAGE_BYTES])
        shutil.copyfile(path, copy)
        with suppress(FileNotFoundError):
            shutil.copyfile(path.with_name(f"{path.name}-wal"), copy.with_name(f"{path.name}-wal"))
        pages = copy.stat().st_size // _PAGE_BYTES
        first_page[_PAGE_COUNT_AT : _PAGE_COUNT_AT + 4] = pages.to_bytes(4, "big")
        with copy.open("r+b") as file:
            file.write(first_page)
        yield copy


def _calls(path: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the calls of a file that can be read and are as they were stored."""
    with closing(_connect(path)) as db, _unless_damaged():
        db.execute("PRAGMA writable_schema=ON")  # without it, SQLite refuses to read a truncated file at all
        for key, kind, engine, value, seconds, created, crc in _read_rows(db, b"", None, 0):
            if read_result(key, value, seconds, crc) is not None and isinstance(created, float):
                yield key, str(kind), str(engine), value.decode(), max(0.0, float(seconds)), created, crc


def _set_aside_rows(path: Path) -> list[tuple[Any, ...]]:
    """Return the rows that were set aside earlier, as far as they can be read."""
    rows: list[tuple[Any, ...]] = []
    with closing(_connect(path)) as db, _unless_damaged():
        rows += db.execute("SELECT * FROM damaged")
    return rows


@contextmanager
def _unless_damaged() -> Iterator[None]:
    """Suppress the errors of damaged content, and no others."""
    try:
        yield
    except UnicodeDecodeError:
        pass
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise


def _read_rows(db: sqlite3.Connection, prefix: bytes, end: bytes | None, depth: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows whose key starts with `prefix`. If pages are damaged, split the range and yield the readable rows."""
    try:
        yield from _select_range(db, prefix, end, "ASC").fetchall()
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise
        if depth < _MAX_DEPTH:
            for byte in range(256):
                subprefix = prefix + bytes([byte])
                subrange_end = prefix + bytes([byte + 1]) if byte < 255 else end
                yield from _read_rows(db, subprefix, subrange_end, depth + 1)
            return
        for order in ("ASC", "DESC"):
            with _unless_damaged():
                yield from _select_range(db, prefix, end, order)


def _select_range(db: sqlite3.Connection, start: bytes, end: bytes | None, order: str) -> sqlite3.Cursor:
    conditions = {"key >= ?": start, "key < ?": end} if start else {}
    used = {text: bound for text, bound in conditions.items() if bound is not None}
    where = f"WHERE {' AND '.join(used)} ORDER BY key {order}" if used else ""  # a scan also finds misplaced keys
    return db.execute(f"SELECT {COLUMNS_AS_BYTES} FROM calls {where}", tuple(used.values()))  # noqa: S608 (constants)
