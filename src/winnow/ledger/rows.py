"""The rows of a ledger: the schema, the JSON encoding of results, and the checksum that protects each value."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson

from winnow.records import Failed, Generation, Pages, Passage, Result, Score, Usage

SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (
    key BLOB PRIMARY KEY, kind TEXT NOT NULL, engine TEXT NOT NULL, value TEXT NOT NULL, seconds REAL NOT NULL,
    created REAL NOT NULL, crc INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claims (key BLOB PRIMARY KEY, owner TEXT NOT NULL, expires REAL NOT NULL) WITHOUT ROWID;
"""
COLUMNS = "key, kind, engine, value, seconds, created, crc"
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def checksum(key: bytes, value: str) -> int:
    """Compute the CRC-32 of a row, because SQLite does not detect a flipped bit in a text."""
    return zlib.crc32(value.encode(), zlib.crc32(key))


def encode(result: Result) -> str:
    """Encode a result as JSON."""
    match result:
        case Generation():
            body: dict[str, Any] = {
                "text": result.text,
                "finish": result.finish,
                "in": result.usage.tokens_in,
                "out": result.usage.tokens_out,
            }
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
    return _ENCODER.encode(body)


def decode(value: str, seconds: float = 0.0) -> Result:
    """Decode a result from the JSON that `encode` wrote; `seconds` becomes part of its usage."""
    try:
        body: Mapping[str, Any] = orjson.loads(value)
    except orjson.JSONDecodeError:
        body = json.loads(value)  # infinite log-probabilities, which standard JSON does not allow
    if "text" in body:
        logprobs = tuple(body["logprobs"]) if "logprobs" in body else None
        usage = Usage(body["in"], body["out"], seconds)
        if "token_logprobs" not in body:
            return Generation(body["text"], body["finish"], usage, logprobs=logprobs)
        tokens = {token: tuple(values) for token, values in body["token_logprobs"].items()}
        return Generation(body["text"], body["finish"], usage, logprobs=logprobs, token_logprobs=tokens)
    if "score" in body:
        return Score(body["score"], Usage(body["in"], 0, seconds)) if "in" in body else Score(body["score"])
    if "failed" in body:
        return Failed(body["failed"])
    return Pages(tuple(Passage(**page) for page in body["pages"]))
