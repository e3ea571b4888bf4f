"""Maintenance of a ledger (the store of finished calls) between runs, for `winnow ledger`."""

import gzip
import io
import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from winnow.artifacts.files import atomic_write
from winnow.errors import LedgerError
from winnow.ledger.merging import EXPORT_FIELDS, iter_stored_rows
from winnow.ledger.postgres import PostgresStore
from winnow.ledger.rows import IS_EMPTY, RESULT_COLUMNS, read_result
from winnow.ledger.sqlite import SqliteStore


@dataclass(frozen=True, slots=True)
class CallTotals:
    """Totals of the calls of one engine and request kind in a ledger.

    Attributes:
        engine: Identity of the engine.
        kind: Kind of the requests, such as "Generate".
        calls: Number of calls.
        result_bytes: Size of the stored results.
        tokens_in: Number of prompt tokens.
        tokens_out: Number of generated tokens.
        seconds: Time that the engine spent on the calls.
    """

    engine: str
    kind: str
    calls: int
    result_bytes: int
    tokens_in: int
    tokens_out: int
    seconds: float


def summarize_calls(ledger: SqliteStore, *, before: float | None = None) -> list[CallTotals]:
    """Compute the totals per engine and request kind, in descending order of the number of calls.

    Args:
        ledger: Open store.
        before: Unix timestamp. Only calls that were stored before it are counted.
    """
    tokens = "COALESCE(SUM(CASE WHEN json_valid(value) THEN json_extract(value, '$.{}') END), 0)"
    size_in_bytes = "SUM(LENGTH(CAST(value AS BLOB)))"
    rows = ledger.connection.execute(
        f"SELECT engine, kind, COUNT(*), {size_in_bytes}, "  # noqa: S608 (constants)
        f"{tokens.format('in')}, {tokens.format('out')}, SUM(seconds) "
        "FROM calls WHERE ?1 IS NULL OR created < ?1 GROUP BY engine, kind ORDER BY COUNT(*) DESC",
        (before,),
    )
    return [CallTotals(*row) for row in rows]


def prune_calls(
    ledger: SqliteStore | PostgresStore,
    *,
    engines: Sequence[str] = (),
    before: float | None = None,
    failed: bool = False,
    empty: bool = False,
) -> int:
    """Delete and count the calls that match all given conditions, and shrink the file.

    Args:
        ledger: Open store.
        engines: Identities of engines. Only their calls are deleted; calls of all engines if there
            are none.
        before: Unix timestamp. Only calls that were stored before it are deleted.
        failed: Whether to delete only recorded failures, so that they are requested again.
        empty: Whether to delete only replies without text, so that they are requested again.

    Raises:
        LedgerError: If no condition is given, because this would delete every call.
    """
    if not engines and before is None and not (failed or empty):
        raise LedgerError(
            "Specify at least one of --engine, --before, --failed and --empty: prune would "
            "otherwise delete every call."
        )
    if isinstance(ledger, PostgresStore):
        return ledger.prune(engines, before, failed=failed, empty=empty)
    with ledger.transaction() as db:
        count = db.execute(
            "DELETE FROM calls WHERE (?1 = '[]' OR engine IN (SELECT value FROM json_each(?1))) "  # noqa: S608 (constants)
            "AND (?2 IS NULL OR created < ?2) "
            """AND (NOT ?3 OR value LIKE '{"failed":%') """
            f"AND (NOT ?4 OR ({IS_EMPTY}))",
            (json.dumps(list(engines)), before, failed, empty),
        ).rowcount
    with suppress(
        sqlite3.OperationalError
    ):  # another process uses the file; SQLite reuses the space
        ledger.connection.execute("VACUUM")
    return count


def find_damaged_calls(ledger: SqliteStore) -> list[bytes]:
    """Return the keys of the stored calls that cannot be read."""
    rows = ledger.connection.execute(f"SELECT CAST(key AS BLOB), {RESULT_COLUMNS} FROM calls")  # noqa: S608 (constants)
    return [key for key, *row in rows if read_result(*row) is None]


def repair_ledger(path: Path) -> int:
    """Move a ledger's damaged calls to the table `damaged`, and release claims of ended processes.

    SQLite cannot find a row by a damaged key. In this case, the file is rebuilt.

    Returns:
        Number of damaged calls.

    Raises:
        LedgerError: If the file must be rebuilt while another process has it open.
    """
    with SqliteStore(path) as ledger:
        keys = find_damaged_calls(ledger)
        if keys:
            ledger.set_aside(keys)
        ledger.release_lapsed_claims()
        needs_rebuild = bool(find_damaged_calls(ledger))
    if needs_rebuild:
        SqliteStore(path).rebuild()
    return len(keys)


def count_set_aside_calls(ledger: SqliteStore) -> int:
    """Count the damaged calls that were moved to the table `damaged` so far."""
    return int(ledger.connection.execute("SELECT COUNT(*) FROM damaged").fetchone()[0])


def export_calls(
    ledger: SqliteStore | PostgresStore, path: Path, keys: Collection[bytes] | None = None
) -> int:
    """Write undamaged calls as lines of JSON, ordered by key, and return the number of calls.

    Args:
        ledger: Open store.
        path: File to write; it is compressed if its name ends with ".gz". Equal calls make equal
            files.
        keys: Keys of the calls to write, or None for all.
    """
    count = 0
    with (
        atomic_write(path) as partial,
        _open_for_writing(partial, compressed=path.suffix == ".gz") as file,
    ):
        for key, *values, _ in iter_stored_rows(ledger):
            if keys is not None and key not in keys:
                continue
            call = dict(zip(EXPORT_FIELDS, (key.hex(), *values), strict=True))
            file.write(json.dumps(call, ensure_ascii=False) + "\n")
            count += 1
    return count


@contextmanager
def _open_for_writing(path: Path, *, compressed: bool) -> Iterator[IO[str]]:
    """Open a text file, compressed by gzip without a name and time if wanted."""
    with path.open("wb") as file:
        stream = gzip.GzipFile("", "wb", fileobj=file, mtime=0) if compressed else file
        with io.TextIOWrapper(stream, encoding="utf-8", newline="\n") as text:
            yield text
