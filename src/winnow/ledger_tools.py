"""What one does with a ledger between runs: look at its size, prune it, export, import and merge."""

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from winnow.errors import InputError, LedgerError
from winnow.formats import json_lines
from winnow.ledger import COLUMNS, Ledger, checksum, decode
from winnow.store import writing

_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "key": str, "kind": str, "engine": str, "value": str, "seconds": (int, float), "created": (int, float),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Share:
    """What a ledger holds of one engine and kind of request; `bytes` counts the stored results."""

    engine: str
    kind: str
    calls: int
    bytes: int
    tokens_in: int
    tokens_out: int
    seconds: float


def size(ledger: Ledger) -> list[Share]:
    """Return the shares of a ledger, the largest first."""
    tokens = "COALESCE(SUM(CASE WHEN json_valid(value) THEN json_extract(value, '$.{}') END), 0)"
    rows = ledger.connection.execute(
        f"SELECT engine, kind, COUNT(*), SUM(LENGTH(value)), {tokens.format('in')}, {tokens.format('out')}, SUM(seconds) "  # noqa: S608 (own words)
        "FROM calls GROUP BY engine, kind ORDER BY 3 DESC"
    )
    return [Share(*row) for row in rows]


def prune(ledger: Ledger, *, engine: str | None = None, before: float | None = None) -> int:
    """Delete the calls of an engine, those made before a time (seconds since 1970), or those that are both.

    Returns how many there were. The file shrinks to what is left.
    """
    if engine is None and before is None:
        raise LedgerError("prune needs an engine or a time; without either it would delete every call.")
    with ledger.writing() as db:
        gone = db.execute(
            "DELETE FROM calls WHERE (?1 IS NULL OR engine = ?1) AND (?2 IS NULL OR created < ?2)", (engine, before)
        ).rowcount
    ledger.connection.execute("VACUUM")
    return gone


def export(ledger: Ledger, path: Path) -> int:
    """Write every call as a line of JSON, in the order of the keys; return how many. Damaged calls are left out."""
    count = 0
    with writing(path) as partial, partial.open("w", encoding="utf-8") as file:
        for row in _whole(ledger.connection.execute(f"SELECT {COLUMNS} FROM calls ORDER BY key")):  # noqa: S608 (own words)
            line = dict(zip(_FIELDS, (row[0].hex(), *row[1:6]), strict=True))
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
    return count


def import_lines(ledger: Ledger, path: Path) -> int:
    """Add the calls of an exported file that the ledger lacks; return how many. A bad line stops it with nothing added."""
    return _add(ledger, _rows(path))


def merge(ledger: Ledger, other: Path) -> int:
    """Add the calls of another ledger that this one lacks; return how many. The other is only read."""
    if not other.is_file():
        raise LedgerError(f"There is no ledger at {other}.")
    with closing(sqlite3.connect(f"file:{quote(str(other))}?mode=ro", uri=True)) as source:
        return _add(ledger, _whole(source.execute(f"SELECT {COLUMNS} FROM calls")))  # noqa: S608 (own words)


def _whole(rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Leave out rows that fail their checksum."""
    return (row for row in rows if checksum(row[0], row[3]) == row[-1])


def _add(ledger: Ledger, rows: Iterable[Sequence[Any]]) -> int:
    before = len(ledger)
    with ledger.writing() as db:
        db.executemany("INSERT OR IGNORE INTO calls VALUES (?,?,?,?,?,?,?)", rows)
    return len(ledger) - before


def _rows(path: Path) -> Iterator[Sequence[Any]]:
    for number, line in json_lines(path, _FIELDS):
        try:
            key, value = bytes.fromhex(line["key"]), line["value"]
            decode(value)
            created = min(float(line["created"]), time.time())
            yield key, line["kind"], line["engine"], value, float(line["seconds"]), created, checksum(key, value)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError.at(path, number, got=json.dumps(line), expected=f"an exported call ({error})") from error
