"""Calls of another ledger or of an exported file, added to a ledger."""

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from winnow.artifacts.parquet import batched
from winnow.errors import InputError, LedgerError
from winnow.formats.text import read_json_lines
from winnow.ledger.layered import connect_read_only
from winnow.ledger.postgres import PostgresStore
from winnow.ledger.rows import (
    COLUMNS_AS_BYTES,
    compute_checksum,
    decode_result,
    read_result,
)
from winnow.ledger.sqlite import SqliteStore
from winnow.ledger.stores import is_server
from winnow.requests import Failed, Generation, Score

EXPORT_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "key": str, "kind": str, "engine": str, "value": str, "seconds": (int, float),
    "created": (int, float),
}  # fmt: skip
"""Fields of a call in an exported file, with their types."""


_NOT_COMPARED = ("in", "out", "reasoning_tokens", "model")
"""Fields of a result in which equal results may differ."""
_ROWS_AT_ONCE = 500
"""Number of rows that are compared and inserted at once."""


_MOST_LISTED = 10
"""Number of conflicts that a description lists."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A call with other results in two ledgers.

    Attributes:
        key: Key of the call.
        kind: Kind of the request.
        engine: Identity of the engine.
        kept_other: Whether the result of the other ledger is kept: it was stored first, or this
            ledger's is an empty reply.
    """

    key: bytes
    kind: str
    engine: str
    kept_other: bool


@dataclass(slots=True)
class Merge:
    """What a merge did: the number of added calls, and the calls whose results differ."""

    added: int = 0
    conflicts: list[Conflict] = field(default_factory=list)

    def describe(self) -> str:
        """Return the number of added calls, and any conflicts with the result that is kept."""
        if not self.conflicts:
            return f"{self.added} calls added"
        lines = [
            f"  {conflict.key.hex()[:12]}  {conflict.kind}  {conflict.engine}: "
            f"{'the other ledger' if conflict.kept_other else 'this ledger'}'s result is kept"
            for conflict in self.conflicts[:_MOST_LISTED]
        ]
        more = (
            [f"  and {len(self.conflicts) - _MOST_LISTED} more"]
            if len(self.conflicts) > _MOST_LISTED
            else []
        )
        head = (
            f"{self.added} calls added. {len(self.conflicts)} calls have other results in the two "
            "ledgers. The result that was stored first is kept, or the one with text:"
        )
        return "\n".join([head, *lines, *more])


def import_calls(ledger: SqliteStore | PostgresStore, path: Path) -> Merge:
    """Add an exported file's calls that the ledger lacks, and return the additions and conflicts.

    Raises:
        InputError: If a line is invalid. No call is added in this case.
    """
    for _ in _parse_rows(path):  # all lines are read before a call is added
        pass
    return _add_rows(ledger, _parse_rows(path))


def merge_ledger(ledger: SqliteStore | PostgresStore, other: Path | str) -> Merge:
    """Add another ledger's calls that this one lacks, and return the additions and conflicts.

    Args:
        ledger: Open store that receives the calls.
        other: File of the other ledger, which is opened read-only, or the URL of a database.

    Raises:
        LedgerError: If the other ledger does not exist.
    """
    if is_server(str(other)):
        with PostgresStore(str(other)) as database:
            return _add_rows(ledger, iter_stored_rows(database))
    other = Path(other)
    if not other.is_file():
        raise LedgerError(f"Ledger not found: {other}. Check the path of the ledger to merge.")
    try:
        with closing(connect_read_only(other)) as source:
            return _add_rows(ledger, _name_errors(other, _iter_intact_rows(source)))
    except sqlite3.DatabaseError as error:
        raise _build_read_error(other, error) from error


def _name_errors(path: Path, rows: Iterator[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Yield the rows of a ledger file; raise LedgerError, which names it, if it is damaged."""
    try:
        yield from rows
    except sqlite3.DatabaseError as error:
        raise _build_read_error(path, error) from error


def _build_read_error(path: Path, error: Exception) -> LedgerError:
    return LedgerError(
        f"The ledger to merge, {path}, cannot be read ({error}). If it is a ledger, repair it with "
        f"`winnow ledger repair {path}`."
    )


def _iter_intact_rows(db: sqlite3.Connection, order: str = "") -> Iterator[Sequence[Any]]:
    """Yield the rows that are not damaged. `order` is an optional ORDER BY clause."""
    for key, kind, engine, value, seconds, storage_time, crc in db.execute(
        f"SELECT {COLUMNS_AS_BYTES} FROM calls {order}"  # noqa: S608 (constants)
    ):
        if read_result(key, value, seconds, crc) is not None:
            yield key, str(kind), str(engine), value.decode(), seconds, storage_time, crc


def iter_stored_rows(ledger: SqliteStore | PostgresStore) -> Iterator[Sequence[Any]]:
    """Yield the rows that are not damaged, ordered by key."""
    if isinstance(ledger, SqliteStore):
        yield from _iter_intact_rows(ledger.connection, "ORDER BY key")
        return
    for key, kind, engine, value, seconds, storage_time, crc in ledger.iter_rows():
        if read_result(key, value.encode(), seconds, crc) is not None:
            yield key, kind, engine, value, seconds, storage_time, crc


def _add_rows(ledger: SqliteStore | PostgresStore, rows: Iterable[Sequence[Any]]) -> Merge:
    """Insert the rows whose keys the ledger lacks, and keep one of two results of a call.

    It is the one that was stored first, or the first one in alphabetical order if both were stored
    at the same time. A reply with text is kept in place of an empty one or of a recorded failure:
    it was requested again.
    """
    merge = Merge()
    if isinstance(ledger, PostgresStore):
        for batch in batched(rows, _ROWS_AT_ONCE):
            _add_batch(
                merge,
                batch,
                ledger.read_rows([row[0] for row in batch]),
                ledger.delete,
                ledger.insert_missing,
            )
        return merge
    with ledger.transaction() as db:
        for batch in batched(rows, _ROWS_AT_ONCE):

            def delete(keys: Sequence[bytes]) -> None:
                db.executemany("DELETE FROM calls WHERE key = ?", [(key,) for key in keys])

            def insert(new: Sequence[Sequence[Any]]) -> None:
                db.executemany("INSERT OR REPLACE INTO calls VALUES (?,?,?,?,?,?,?)", new)

            _add_batch(merge, batch, ledger.read_rows([row[0] for row in batch]), delete, insert)
    return merge


def _add_batch(
    merge: Merge,
    batch: Sequence[Sequence[Any]],
    own: Mapping[bytes, tuple[str, float]],
    delete: Callable[[Sequence[bytes]], object],
    insert: Callable[[Sequence[Sequence[Any]]], object],
) -> None:
    """Add a batch of rows, and count what was added and what is in conflict.

    Args:
        merge: Counts, to which the counts of the batch are added.
        batch: Rows, of which several may have the same key.
        own: Value and time of storage of the ledger's own rows, by key.
        delete: Function that deletes rows by key.
        insert: Function that inserts rows.
    """
    best = dict(own)
    new: dict[bytes, Sequence[Any]] = {}
    for row in batch:
        key, kind, engine, value, _, storage_time, _ = row
        if key not in best:
            new[key], best[key] = row, (value, storage_time)
            continue
        kept_value, kept_time = best[key]
        if _is_other_result(kept_value, value):
            rank = (_rank_kind(value), storage_time, value)
            is_better = rank < (_rank_kind(kept_value), kept_time, kept_value)
            merge.conflicts.append(Conflict(key, kind, engine, kept_other=is_better))
            if is_better:
                new[key], best[key] = row, (value, storage_time)
    delete([key for key in new if key in own])
    insert(list(new.values()))
    merge.added += sum(key not in own for key in new)


def _is_other_result(own: str, other: str) -> bool:
    """Return whether encoded results differ in more than token counts, time and model name."""
    return bool(_strip(own) != _strip(other))


def _rank_kind(value: str) -> int:
    """Return 2 for an encoded failure, 1 for a reply without text or tool calls, or 0 otherwise."""
    result = decode_result(value.encode())
    if isinstance(result, Failed):
        return 2
    return int(isinstance(result, Generation) and result.is_empty)


def _strip(value: str) -> Any:
    body: Any = json.loads(value)
    return {name: entry for name, entry in body.items() if name not in _NOT_COMPARED}


def _parse_rows(path: Path) -> Iterator[Sequence[Any]]:
    """Yield the rows of an exported file. Future storage times are set to the current time."""
    for place, call in read_json_lines(path, EXPORT_FIELDS):
        try:
            key, value = bytes.fromhex(call["key"]), call["value"]
            result = decode_result(value.encode())
            if isinstance(result, Score) and not isinstance(result.value, int | float):
                raise TypeError(f"the score {result.value!r} is not a number")
            storage_time = min(float(call["created"]), time.time())
            yield (
                key,
                call["kind"],
                call["engine"],
                value,
                float(call["seconds"]),
                storage_time,
                compute_checksum(key, value.encode()),
            )
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            expectation = f"an exported call ({error})"
            raise InputError.at(place, received=json.dumps(call), expected=expectation) from error
