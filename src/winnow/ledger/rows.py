"""The rows of a ledger, which is the SQLite file of all finished model calls.

The module defines the versions of the schema, the JSON encoding of results, and the checksum of
each row.
"""

import json
import math
import sqlite3
import sys
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import orjson
from msgspec import structs

from winnow.errors import LedgerError
from winnow.records import Passage
from winnow.requests import (
    NO_USAGE,
    Failed,
    Generation,
    Pages,
    Request,
    Result,
    Score,
    Snapshot,
    ToolCall,
    Usage,
)
from winnow.text.final import compute_reasoning_share

MIGRATIONS = (
    """
CREATE TABLE IF NOT EXISTS calls (
    key BLOB PRIMARY KEY, kind TEXT NOT NULL, engine TEXT NOT NULL, value TEXT NOT NULL,
    seconds REAL NOT NULL, created REAL NOT NULL, crc INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claims (
    key BLOB PRIMARY KEY, owner TEXT NOT NULL, expires REAL NOT NULL
) WITHOUT ROWID;
""",
    """
CREATE TABLE IF NOT EXISTS damaged (
    key BLOB, kind TEXT, engine TEXT, value BLOB, seconds REAL, created REAL, crc INTEGER,
    noticed REAL NOT NULL
);
""",
)
"""SQL scripts that each upgrade the schema by one version. A new file gets all of them."""
_VERSION_FACTOR = 999_983
"""`PRAGMA user_version` is the number of migrations times this prime, to detect flipped bits."""
COLUMNS = "key, kind, engine, value, seconds, created, crc"
COLUMNS_AS_BYTES = COLUMNS.replace("value", "CAST(value AS BLOB)")
"""The same columns with the value as bytes, which can be read even if they are not valid UTF-8."""
RESULT_COLUMNS = "key, CAST(value AS BLOB), seconds, crc"
"""The four arguments of `read_result`. The key is bytes if the row was found by it."""
IS_EMPTY = (
    """(value LIKE '{"text":"",%' OR json_valid(value)"""
    """ AND trim(json_extract(value, '$.text'), char(9, 10, 13, 32)) = '')"""
    """ AND value NOT LIKE '%"tool_calls":%'"""
)
"""SQL condition that selects replies without text and without a call of a tool."""
_NUM_GENERATION_FIELDS = 4
"""Field count of the most frequent result, a Generation without log-probabilities or model name."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def migrate(db: sqlite3.Connection) -> None:
    """Create the tables of a new file, or upgrade the schema of an older file.

    Raises:
        LedgerError: If a newer version of Winnow wrote the file.
    """
    version = read_schema_version(db)
    if version is None or version > len(MIGRATIONS):
        raise LedgerError(
            f"A newer version of Winnow wrote this ledger (schema {version}; the installed version "
            f"supports schemas up to {len(MIGRATIONS)}). Update Winnow, or name another file with "
            "paths.ledger."
        )
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        db.executescript(
            f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {number * _VERSION_FACTOR}; COMMIT;"
        )


def read_schema_version(db: sqlite3.Connection) -> int | None:
    """Return the number of migrations applied to a file, or None if its version is invalid."""
    version, remainder = divmod(
        int(db.execute("PRAGMA user_version").fetchone()[0]), _VERSION_FACTOR
    )
    return None if remainder or version < 0 else version


def decode_text(text: bytes) -> str:
    """Decode UTF-8 and replace invalid bytes, for which sqlite3 would raise an error by default."""
    return text.decode(errors="replace")


def compute_checksum(key: bytes, value: bytes) -> int:
    """Compute the CRC-32 of a row's key and value, because SQLite does not detect flipped bits."""
    return zlib.crc32(key + value)


def read_result(key: object, value: object, seconds: object, crc: object) -> Result | None:
    """Decode the result of a row, or return None if the row is damaged.

    A damaged row may contain values of any type, so the arguments have none.

    Args:
        key: Key of the call.
        value: Encoded result as bytes (see `encode_result`).
        seconds: Engine time of the call.
        crc: Stored checksum of key and value.
    """
    if (
        not isinstance(key, bytes)
        or not isinstance(value, bytes)
        or compute_checksum(key, value) != crc
    ):
        return None
    try:
        return decode_result(
            value, seconds if isinstance(seconds, float) and 0 <= seconds < math.inf else 0.0
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def encode_result(result: Result) -> str:
    """Encode a result as JSON.

    Raises:
        LedgerError: If a number of the result is NaN, because no later run could use it.
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
            if result.token_positions is not None:
                body["token_positions"] = dict(result.token_positions)
            if result.tokens:
                body |= {
                    "tokens": result.tokens,
                    "top_logprobs": list(map(dict, result.top_logprobs)),
                }
            if result.reasoning:
                body["reasoning"] = result.reasoning
            if result.usage.tokens_reasoning or compute_reasoning_share(
                result.text, result.reasoning
            ):  # without a number, it is estimated when the row is read
                body["reasoning_tokens"] = result.usage.tokens_reasoning
            if result.tool_calls:
                body["tool_calls"] = list(map(structs.astuple, result.tool_calls))
        case Score():
            body = {"score": result.value}
            if result.usage.tokens_in:
                body["in"] = result.usage.tokens_in
            if result.model:
                body["model"] = result.model
            if result.tokens:
                body |= {"tokens": result.tokens, "logprobs": result.logprobs}
        case Pages():
            body = {
                "pages": [
                    {"passage_id": p.passage_id, "title": p.title, "text": p.text}
                    for p in result.passages
                ]
            }
            if result.snapshots:
                body["snapshots"] = [asdict(snapshot) for snapshot in result.snapshots]
            if result.scores:
                body["scores"] = result.scores
        case Failed():
            body = {"failed": result.reason}
    if isinstance(result, Generation) and _has_whole_numbers_only(result):
        with suppress(orjson.JSONEncodeError):  # a lone surrogate
            return orjson.dumps(body).decode()
    text = _ENCODER.encode(body)  # orjson writes infinite numbers and NaN as null
    if "NaN" in text:
        try:
            _parse_json(text)
        except ValueError:
            raise LedgerError(
                f"A call's result contains NaN and was not stored: {text[:200]}. Check the model "
                "that computed it."
            ) from None
    return text


def _has_whole_numbers_only(reply: Generation) -> bool:
    """Return whether no number of a reply can be infinite or NaN."""
    usage = reply.usage
    is_whole = type(usage.tokens_in) is int and type(usage.tokens_out) is int
    return is_whole and reply.logprobs is None and reply.token_logprobs is None


def encode_rows(
    engine: str, rows: Iterable[tuple[bytes, Request, Result, float]]
) -> tuple[list[tuple[bytes, str, str, str, float, int]], dict[bytes, LedgerError]]:
    """Encode the results of an engine for storage.

    Args:
        engine: Identity of the engine that computed the results.
        rows: Tuples of key, request, result and engine time in seconds.

    Returns:
        Tuples of key, kind of request, engine, value, seconds and checksum, and the errors of
        results that cannot be stored.
    """
    encoded_rows, errors = [], dict[bytes, LedgerError]()
    for key, request, result, seconds in rows:
        try:
            value = encode_result(result)
        except LedgerError as error:
            errors[key] = error
        else:
            encoded_rows.append(
                (
                    key,
                    type(request).__name__,
                    engine,
                    value,
                    seconds,
                    compute_checksum(key, value.encode()),
                )
            )
    return encoded_rows, errors


def _parse_json(text: str) -> Mapping[str, Any]:
    """Parse JSON, allowing infinite numbers, which are not standard. Raise ValueError for NaN."""
    body: Mapping[str, Any] = json.loads(text, parse_constant=_parse_infinity)
    return body


def _parse_infinity(name: str) -> float:
    if name == "NaN":
        raise ValueError("NaN is not a valid result")
    return float(name)


def _read_reasoning_tokens(body: Mapping[str, Any]) -> int:
    """Return a reply's reasoning tokens, estimated from the share of characters if not counted."""
    if "reasoning_tokens" in body:
        return int(body["reasoning_tokens"])
    others = sum(len(text) for call in body.get("tool_calls", ()) for text in call)
    tokens_out: int = body["out"]
    return round(
        compute_reasoning_share(body["text"], body.get("reasoning", ""), others) * tokens_out
    )


def decode_result(value: bytes, seconds: float = 0.0) -> Result:
    """Decode a result that `encode_result` wrote.

    Args:
        value: JSON in UTF-8.
        seconds: Engine time of the call, which becomes part of the result's usage.

    Raises:
        ValueError, KeyError or TypeError: If `encode_result` cannot have written the value.
    """
    try:
        body: Mapping[str, Any] = orjson.loads(value)
    except orjson.JSONDecodeError:
        body = _parse_json(value.decode())  # orjson rejects infinite log-probabilities
    if "text" in body:
        usage = Usage(body["in"], body["out"], _read_reasoning_tokens(body), seconds)
        if len(body) == _NUM_GENERATION_FIELDS:
            return Generation(body["text"], body["finish"], usage)
        if len(body) == _NUM_GENERATION_FIELDS + 1 and "model" in body:
            return Generation(body["text"], body["finish"], usage, model=sys.intern(body["model"]))
        field_names = ("token_logprobs", "token_positions")
        by_token = [
            (
                {token: tuple(values) for token, values in body[name].items()}
                if name in body
                else None
            )
            for name in field_names
        ]
        return Generation(
            body["text"],
            body["finish"],
            usage,
            logprobs=tuple(body["logprobs"]) if "logprobs" in body else None,
            token_logprobs=by_token[0],
            token_positions=by_token[1],
            model=body.get("model", ""),
            tokens=tuple(body.get("tokens", ())),
            top_logprobs=tuple(body.get("top_logprobs", ())),
            reasoning=body.get("reasoning", ""),
            tool_calls=tuple(ToolCall(*call) for call in body.get("tool_calls", ())),
        )
    if "score" in body:
        usage = Usage(body["in"], seconds=seconds) if "in" in body else NO_USAGE
        parts = (tuple(body.get(name, ())) for name in ("tokens", "logprobs"))
        return Score(body["score"], usage, sys.intern(body.get("model", "")), *parts)
    if "failed" in body:
        return Failed(body["failed"])
    snapshots = tuple(Snapshot(**snapshot) for snapshot in body.get("snapshots", ()))
    return Pages(
        tuple(Passage(**page) for page in body["pages"]), snapshots, tuple(body.get("scores", ()))
    )
