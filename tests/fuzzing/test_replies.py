"""Mutated replies of a server, and mutated rows of a ledger: each is a result, or
refused by name.
"""

import json
import os
import random

import pytest
from mutations import mutate

from winnow.errors import WinnowError
from winnow.ledger.rows import compute_checksum, encode_result, read_result
from winnow.readers.openai_errors import RetryableError
from winnow.readers.openai_protocol import ChatProtocol
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message
from winnow.strategies.unknown import is_unknown
from winnow.text.answers import extract_answer, extract_reasoned_answer

CASES = int(os.environ.get("WINNOW_FUZZ", "2000"))
PROTOCOL = ChatProtocol("m", "http://127.0.0.1:1/v1")
REQUEST = Generate((Message("user", "u"),), Decoding(5, logprobs=True))
REPLY = {
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Answer: Paris"},
            "finish_reason": "stop",
            "logprobs": {"content": [{"token": "x", "logprob": -0.5}]},
        }
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3},
}


@pytest.mark.parametrize("samples", [1, 2])
def test_a_mutated_reply_is_a_result_or_refused(samples: int) -> None:
    """What is a result can be stored and read again as it is; its text has an answer or
    is unknown.
    """
    rng = random.Random(samples)
    content = json.dumps(REPLY | {"choices": REPLY["choices"] * samples}).encode()  # type: ignore[operator]
    for _ in range(CASES):
        text = mutate(content, rng).decode(errors="replace")
        try:
            results = PROTOCOL.parse_reply(text, [REQUEST] * samples)
        except (WinnowError, RetryableError):
            continue
        assert len(results) == samples
        for result in results:
            stored = encode_result(result).encode()
            assert read_result(b"k", stored, 0.0, compute_checksum(b"k", stored)) == result
            assert isinstance(extract_answer(result.text), str)
            assert isinstance(is_unknown(extract_reasoned_answer(result.text)), bool)


def test_a_mutated_row_is_a_result_or_damaged() -> None:
    """Even where its checksum is right."""
    rng = random.Random(0)
    content = encode_result(Generation("Paris", logprobs=(-0.5, float("-inf")), model="m")).encode()
    for _ in range(CASES):
        value = mutate(content, rng)
        result = read_result(b"k", value, 0.0, compute_checksum(b"k", value))
        assert result is None or encode_result(result)
