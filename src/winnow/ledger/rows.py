"""The rows of a ledger: the versions of its schema, the JSON encoding of results, and the checksum of each value."""

import json
import math
import sqlite3
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson

from winnow.errors import LedgerError
from winnow.records import Failed, Generation, Pages, Passage, Result, Score, Usage

MIGRATIONS = (
    """
CREATE TABLE IF NOT EXISTS calls (
    key BLOB PRIMARY KEY, kind TEXT NOT NULL, engine TEXT NOT NULL, value TEXT NOT NULL, seconds REAL NOT NULL,
    created REAL NOT NULL, crc INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claims (key BLOB PRIMARY KEY, owner TEXT NOT NULL, expires REAL NOT NULL) WITHOUT ROWID;
""",
    """
CREATE TABLE IF NOT EXISTS damaged (
    key BLOB, kind TEXT, engine TEXT, value BLOB, seconds REAL, created REAL, crc INTEGER, noticed REAL NOT NULL
);
""",
)
"""What each version of the schema adds to the one before; a new file goes through all of them."""
_VERSION_FACTOR = 999_983
"""`PRAGMA user_version` is the number of applied migrations times this prime, so that no flipped bit makes another version."""
COLUMNS = "key, kind, engine, value, seconds, created, crc"
COLUMNS_AS_BYTES = COLUMNS.replace("value", "CAST(value AS BLOB)")
"""The same columns with the value as bytes, which can be read whatever they are."""
RESULT_COLUMNS = "CAST(key AS BLOB), key, CAST(value AS BLOB), seconds, crc"
"""The key as bytes, and the arguments of `read_result`."""
IS_EMPTY = (
    """value LIKE '{"text":"",%' OR json_valid(value) AND trim(json_extract(value, '$.text'), char(9, 10, 13, 32)) = ''"""
)
"""Condition on rows that are replies without text."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def migrate(db: sqlite3.Connection) -> None:
    """Create the tables of a new file, or add what a file of a former version lacks.

    Raises:
        LedgerError: If a newer version of Winnow wrote the file.

    """
    version = schema_version(db)
    if version is None or version > len(MIGRATIONS):
        raise LedgerError(
            f"A newer version of Winnow wrote this ledger (schema {version}, and this one knows {len(MIGRATIONS)}). Update "
            "Winnow, or name another ledger with paths.ledger."
        )
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        db.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {number * _VERSION_FACTOR}; COMMIT;")


def schema_version(db: sqlite3.Connection) -> int | None:
    """Return the number of migrations that a file has gone through, or None if its version is no valid one."""
    version, remainder = divmod(int(db.execute("PRAGMA user_version").fetchone()[0]), _VERSION_FACTOR)
    return None if remainder or version < 0 else version


def decode_text(text: bytes) -> str:
    """Decode a text whatever its bytes are (a `text_factory` of sqlite3)."""
    return text.decode(errors="replace")


def checksum(key: bytes, value: bytes) -> int:
    """Compute the CRC-32 of a row, because SQLite does not detect a flipped bit in a text."""
    return zlib.crc32(value, zlib.crc32(key))


def read_result(key: object, value: object, seconds: object, crc: object) -> Result | None:
    """Return the result of a row, whose value is read as bytes, or None if the row is damaged."""
    if not isinstance(key, bytes) or not isinstance(value, bytes) or checksum(key, value) != crc:
        return None
    try:
        return decode(value, seconds if isinstance(seconds, float) and 0 <= seconds < math.inf else 0.0)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def encode(result: Result) -> str:
    """Encode a result as JSON.

    Raises:
        LedgerError: If a number of the result is NaN, which no later run could use.

    """
    match result:
        case Generation():
            body: dict[str, Any] = {
                "text": result.text,
                "finish": result.finish,
                "in": result.usage.tokens_in,
                "out": result.usage.tokens_out,
            }
            if result.model:
                body["model"] = result.model
            if result.logprobs is not None:
                body["logprobs"] = result.logprobs
            if result.token_logprobs is not None:
                body["token_logprobs"] = dict(result.token_logprobs)
        case Score():
            body = {"score": result.value}
            if result.usage.tokens_in:
                body["in"] = result.usage.tokens_in
        case Pages():
            body = {"pages": [asdict(page) for page in result.passages]}
        case Failed():
            body = {"failed": result.reason}
    text = _ENCODER.encode(body)
    if "NaN" in text:
        try:
            _parse(text)
        except ValueError:
            raise LedgerError(f"A call's result contains NaN and was not stored: {text[:200]}") from None
    return text


def _parse(text: str) -> Mapping[str, Any]:
    """Parse JSON with infinite numbers, which standard JSON does not allow, but without NaN."""
    body: Mapping[str, Any] = json.loads(text, parse_constant=_infinity)
    return body


def _infinity(name: str) -> float:
    if name == "NaN":
        raise ValueError("NaN is no result")
    return float(name)


def decode(value: bytes, seconds: float = 0.0) -> Result:
    """Decode a result from the UTF-8 of the JSON that `encode` wrote; `seconds` becomes part of its usage.

    Raises:
        ValueError, KeyError or TypeError: If it is nothing that `encode` writes.

    """
    try:
        body: Mapping[str, Any] = orjson.loads(value)
    except orjson.JSONDecodeError:
        body = _parse(value.decode())  # infinite log-probabilities
    if "text" in body:
        logprobs = tuple(body["logprobs"]) if "logprobs" in body else None
        usage, model = Usage(body["in"], body["out"], seconds), body.get("model", "")
        if "token_logprobs" not in body:
            return Generation(body["text"], body["finish"], usage, logprobs=logprobs, model=model)
        tokens = {token: tuple(values) for token, values in body["token_logprobs"].items()}
        return Generation(body["text"], body["finish"], usage, logprobs=logprobs, token_logprobs=tokens, model=model)
    if "score" in body:
        return Score(body["score"], Usage(body["in"], 0, seconds)) if "in" in body else Score(body["score"])
    if "failed" in body:
        return Failed(body["failed"])
    return Pages(tuple(Passage(**page) for page in body["pages"]))
