"""Recovery of a damaged ledger: readable calls go to a new file, and others must be repeated.

SQLite's own `.recover` command is part of its shell, which Python does not include. Instead, the
table is read in ranges of keys. Keys are uniformly distributed hashes, so only the ranges on
damaged pages are lost. The first page describes the file. If it is damaged, the first page of a new
ledger replaces it, because the tables of every ledger begin on the same pages.
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
from winnow.ledger.rows import (
    COLUMNS_AS_BYTES,
    MIGRATIONS,
    decode_text,
    migrate,
    read_result,
    read_schema_version,
)

_MAX_DEPTH = 2
"""Maximum number of splits of a range by the next key byte before unreadable rows are skipped."""
_SIDE_FILES = ("-wal", "-shm")
"""Suffixes of the files that SQLite in WAL mode keeps next to a database."""
_MAGIC = b"SQLite format 3\x00"
"""First bytes of every SQLite file."""
_PAGE_BYTES = 4096
_FORMAT_AT = slice(18, 20)
"""Offsets of the bytes with the file format's write and read versions, which are 1 or 2."""
_PAGE_COUNT_AT = 28
"""Offset of the number of pages of the file, a big-endian integer of four bytes in the first page.
"""


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """Result of a recovery.

    Attributes:
        num_calls: Number of recovered calls.
        damaged_path: New path of the damaged file.
    """

    num_calls: int
    damaged_path: Path


def is_intact(path: Path) -> bool:
    """Return whether a ledger is missing, empty or usable without recovery. Rows are not checked.

    Raises:
        LedgerError: If the file is not an SQLite file and contains no call either.
        sqlite3.DatabaseError: If the file cannot be opened for another reason, such as a lock or a
            disk error.
    """
    if not path.exists() or path.stat().st_size == 0:
        return True
    with path.open("rb") as file:
        header = file.read(len(_MAGIC) + 4)
    if not header.startswith(_MAGIC):
        if not _has_calls(path):
            raise LedgerError(
                f"{path} is not a ledger: it lacks the header of an SQLite file. Move the file "
                "away to start a new ledger."
            )
        return False
    if not set(header[_FORMAT_AT]) <= {1, 2}:
        return False  # SQLite would not write to the file
    try:
        with closing(_connect(path)) as db:
            version = read_schema_version(db)
            if version is None or db.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
                return False
            return version > len(MIGRATIONS) or _has_known_tables(db)
    except UnicodeDecodeError:  # the message of SQLite contains a damaged name
        return False
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise
        return False


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Return whether file content causes an error, not a lock, the disk or too many open files."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is None or code & 0xFF in (
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_ERROR,
    )


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=60)
    db.text_factory = decode_text
    return db


def _has_known_tables(db: sqlite3.Connection) -> bool:
    """Return whether a file has at least a ledger's tables with its columns, or no tables yet."""
    with closing(sqlite3.connect(":memory:")) as new:
        migrate(new)
        expected_definitions = _read_definitions(new)
    definitions = _read_definitions(db)
    have_expected_columns = all(
        definitions.get(name, sql) == sql for name, sql in expected_definitions.items()
    )
    return have_expected_columns and ({"calls", "claims"} <= definitions.keys() or not definitions)


def _read_definitions(db: sqlite3.Connection) -> dict[str, str]:
    """Return the SQL definitions of the tables by name, with normalized white space."""
    return {
        name: " ".join(str(sql).split())
        for name, sql in db.execute("SELECT name, sql FROM sqlite_master")
    }


def recover(path: Path) -> RecoveryResult:
    """Replace a damaged file with a new one of its readable calls, and rename the damaged one.

    No other process may have the file open.
    """
    recovered = path.with_name(path.name + ".recovering")
    recovered.unlink(missing_ok=True)
    with closing(sqlite3.connect(recovered)) as new, _copy_with_new_first_page(path) as copy:
        migrate(new)
        for source in (path, copy):
            new.executemany(
                "INSERT OR IGNORE INTO calls VALUES (?,?,?,?,?,?,?)", _iter_readable_calls(source)
            )
            new.commit()
        damaged_rows = _read_damaged_rows(path) or _read_damaged_rows(copy)
        new.executemany("INSERT INTO damaged VALUES (?,?,?,?,?,?,?,?)", damaged_rows)
        new.commit()
        num_calls = int(new.execute("SELECT COUNT(*) FROM calls").fetchone()[0])
    damaged_path = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
    for suffix in _SIDE_FILES:
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(
                damaged_path.with_name(damaged_path.name + suffix)
            )
    path.rename(damaged_path)
    recovered.rename(path)
    return RecoveryResult(num_calls, damaged_path)


def _has_calls(path: Path) -> bool:
    """Return whether a call can be read from a file whose first page is damaged."""
    with _copy_with_new_first_page(path) as copy:
        return next(_iter_readable_calls(copy), None) is not None


@contextmanager
def _copy_with_new_first_page(path: Path) -> Iterator[Path]:
    """Copy a file with a new ledger's first page. The copy is removed at the end of the block."""
    with TemporaryDirectory(dir=path.parent, prefix=f"{path.name}.recovering-") as folder:
        new, copy = Path(folder) / "new.sqlite", Path(folder) / path.name
        with closing(sqlite3.connect(new)) as db:
            migrate(db)
        first_page = bytearray(new.read_bytes()[:_PAGE_BYTES])
        shutil.copyfile(path, copy)
        with suppress(FileNotFoundError):
            shutil.copyfile(path.with_name(f"{path.name}-wal"), copy.with_name(f"{path.name}-wal"))
        num_pages = copy.stat().st_size // _PAGE_BYTES
        first_page[_PAGE_COUNT_AT : _PAGE_COUNT_AT + 4] = num_pages.to_bytes(4, "big")
        with copy.open("r+b") as file:
            file.write(first_page)
        yield copy


def _iter_readable_calls(path: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a file that can be read and match their checksums."""
    with closing(_connect(path)) as db, _suppress_damage_errors():
        db.execute(
            "PRAGMA writable_schema=ON"
        )  # without it, SQLite refuses to read a truncated file at all
        for key, kind, engine, value, seconds, storage_time, crc in _read_rows(db, b"", None, 0):
            if read_result(key, value, seconds, crc) is not None and isinstance(
                storage_time, float
            ):
                yield (
                    key,
                    str(kind),
                    str(engine),
                    value.decode(),
                    max(0.0, float(seconds)),
                    storage_time,
                    crc,
                )


def _read_damaged_rows(path: Path) -> list[tuple[Any, ...]]:
    """Return the readable rows of the table `damaged`, in which earlier runs put damaged rows."""
    rows: list[tuple[Any, ...]] = []
    with closing(_connect(path)) as db, _suppress_damage_errors():
        rows += db.execute("SELECT * FROM damaged")
    return rows


@contextmanager
def _suppress_damage_errors() -> Iterator[None]:
    """Suppress errors that are caused by damaged content, and no others."""
    try:
        yield
    except UnicodeDecodeError:
        pass
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise


def _read_rows(
    db: sqlite3.Connection, prefix: bytes, end: bytes | None, depth: int
) -> Iterator[tuple[Any, ...]]:
    """Yield the readable rows whose key starts with `prefix`, and split the range if it is damaged.

    Args:
        db: Connection to the damaged file.
        prefix: First bytes of the keys; it is empty for the whole table.
        end: First key after the range, or None if the range has no end.
        depth: Number of splits that led to this range.
    """
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
            with _suppress_damage_errors():
                yield from _select_range(db, prefix, end, order)


def _select_range(
    db: sqlite3.Connection, start: bytes, end: bytes | None, order: str
) -> sqlite3.Cursor:
    """Select the rows from key `start` up to `end`, or all in file order if `start` is empty."""
    bounds = {"key >= ?": start, "key < ?": end} if start else {}
    conditions = {condition: bound for condition, bound in bounds.items() if bound is not None}
    where = (
        f"WHERE {' AND '.join(conditions)} ORDER BY key {order}" if conditions else ""
    )  # a full scan also finds misplaced keys
    return db.execute(f"SELECT {COLUMNS_AS_BYTES} FROM calls {where}", tuple(conditions.values()))  # noqa: S608 (constants)
