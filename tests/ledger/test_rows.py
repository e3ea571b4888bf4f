"""Rows of a ledger."""

import json
import math
import zlib

import pytest

from winnow.errors import LedgerError
from winnow.ledger.rows import (
    compute_checksum,
    decode_result,
    encode_result,
    encode_rows,
    read_result,
)
from winnow.records import Decoding, Passage
from winnow.requests import (
    Failed,
    Generate,
    Generation,
    Message,
    Pages,
    Result,
    Score,
    Snapshot,
    ToolCall,
    Usage,
)

RESULTS: list[Result] = [
    Generation("Paris"),
    Generation("", "empty", Usage(0, 0)),
    Generation("é\u2028", "length", Usage(7, 3), model="gpt"),
    Generation("a", usage=Usage(1, 2), logprobs=(-0.5, -math.inf)),
    Generation(
        "a",
        logprobs=(),
        token_logprobs={"yes": (-0.25,), "no": ()},
        token_positions={"yes": (0,)},
        model="m",
    ),
    Generation("a", model="m", reasoning="hm", usage=Usage(9, 6, tokens_reasoning=4)),
    Generation(
        "",
        "tool_calls",
        reasoning="hm",
        tool_calls=(ToolCall("search", '{"query": "x"}', "1"), ToolCall("", "?")),
    ),
    Generation(
        "ab",
        logprobs=(-0.5, -1.0),
        tokens=("a", "b"),
        top_logprobs=({"a": -0.5, "c": -2.0}, {"d": -0.25}),
    ),
    Score(-1.5, tokens=("a", " b"), logprobs=(-0.5, -math.inf)),
    Score(-1.5),
    Score(math.inf),
    Score(0.1, Usage(12, 0)),
    Pages(
        (Passage("p", "T", "text"),), (Snapshot("http://a", "2026-11-24T05:30:00Z", "ab", "why"),)
    ),
    Pages(tuple(Passage(id_, "", "x") for id_ in "abc"), scores=(0.123456789, None, 2.0)),
    Pages(()),
    Failed("moderated"),
]


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_a_result_comes_back_as_it_was(result: Result) -> None:
    """Every field, with the time of the row."""
    value = encode_result(result).encode()
    decoded = decode_result(value, 0.75)
    assert decoded == result
    if isinstance(decoded, Generation):
        assert decoded.usage.seconds == 0.75
    key = b"k" * 32
    assert read_result(key, value, 0.75, compute_checksum(key, value)) == result


def test_reasoning_that_was_not_counted_has_its_share_of_the_tokens() -> None:
    """Beside the text, or in tags within it; a reply without any has none."""
    for body, tokens in (
        ({"text": "four", "reasoning": "x" * 396}, 99),
        ({"text": "<think>" + "x" * 12 + "</think>four"}, 75),
        ({"text": "four [1] < five"}, 0),
    ):
        value = json.dumps({**body, "finish": "stop", "in": 5, "out": 100}).encode()
        decoded = decode_result(value)
        assert isinstance(decoded, Generation)
        assert decoded.usage.tokens_reasoning == tokens


@pytest.mark.parametrize("tokens", [0, 3])
def test_a_recorded_number_of_reasoning_tokens_is_kept(tokens: int) -> None:
    """Also 0, which is not estimated again."""
    usage = Usage(5, 100, tokens)
    result = Generation("<think>" + "x" * 12 + "</think>four", usage=usage)
    decoded = decode_result(encode_result(result).encode())
    assert isinstance(decoded, Generation)
    assert decoded.usage.tokens_reasoning == tokens


def test_the_checksum_is_that_of_key_and_value() -> None:
    """It is CRC-32 of one after the other, as former versions wrote it."""
    assert (
        compute_checksum(b"key", b"value")
        == zlib.crc32(b"keyvalue")
        == zlib.crc32(b"value", zlib.crc32(b"key"))
    )


@pytest.mark.parametrize(
    ("key", "value", "seconds"),
    [
        ("text", b'{"score":1.0}', 0.5), (b"k", '{"score":1.0}', 0.5), (b"k", b"", 0.5),
        (b"k", b"{}", 0.5), (b"k", b'{"text":"a"}', 0.5),
        (b"k", b'{"text":"a","finish":"stop","in":1,"model":"m"}', 0.5), (b"k", b"null", 0.5),
        (b"k", b"[1]", 0.5), (None, None, None),
    ],
)  # fmt: skip
def test_what_is_no_result_is_damaged(key: object, value: object, seconds: object) -> None:
    """Also if its checksum is right."""
    crc = compute_checksum(key, value) if isinstance(key, bytes) and isinstance(value, bytes) else 0
    assert read_result(key, value, seconds, crc) is None


@pytest.mark.parametrize("seconds", ["x", None, -1.0, math.nan, math.inf, 3])
def test_a_damaged_time_is_zero(seconds: object) -> None:
    """It is not part of the checksum, and does not cost a result."""
    value = encode_result(Generation("a")).encode()
    result = read_result(b"k", value, seconds, compute_checksum(b"k", value))
    assert isinstance(result, Generation)
    assert result.usage.seconds == 0


def test_nan_is_not_stored_and_spoils_no_other_result() -> None:
    """Also among log-probabilities; a reply that only mentions NaN is stored."""
    request = Generate((Message("user", "q"),), Decoding())
    named, undefined = Generation("NaN", logprobs=(-1.0,)), Generation("a", logprobs=(math.nan,))
    results: list[Result] = [Score(math.nan), named, undefined, Score(1.0)]
    rows = [(bytes([number]), request, result, 0.5) for number, result in enumerate(results)]
    encoded, errors = encode_rows("m", rows)
    assert [row[0] for row in encoded] == [b"\x01", b"\x03"]
    assert set(errors) == {b"\x00", b"\x02"}
    assert all(isinstance(error, LedgerError) and "NaN" in str(error) for error in errors.values())
    assert json.loads(encoded[0][3])["text"] == "NaN"
