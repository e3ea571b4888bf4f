"""The token counts of a reply: as the server reports them, or by the characters of its texts."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from winnow.readers.openai_protocol import ChatProtocol
from winnow.records import Decoding
from winnow.requests import Generate, Message

PROTOCOL = ChatProtocol("m", "http://127.0.0.1/v1")
REQUEST = Generate((Message("user", "2 + 2?"),), Decoding())


def reply(usage: Mapping[str, Any] | None, *messages: Mapping[str, str]) -> str:
    """Return the body of a reply with these messages."""
    choices = [
        {"index": n, "message": message, "finish_reason": "stop"}
        for n, message in enumerate(messages)
    ]
    return json.dumps({"model": "m", "choices": choices, "usage": usage})


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 0, "completion_tokens": 0}, None),
        ({"prompt_tokens": 20, "completion_tokens": 0}, None),
        ({"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}, (20, 5)),
        ({"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 425}, (20, 405)),
        ({"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 0}, (20, 5)),
        ({"prompt_tokens": 20, "total_tokens": 520}, (20, 500)),
        ({"prompt_tokens": 20, "completion_tokens": 0, "total_tokens": 520}, (20, 500)),
    ],
)
def test_counts_of_tokens(usage: dict[str, int], expected: tuple[int, int] | None) -> None:
    """Zeros beside a text are no counts, and tokens of reasoning that stand in the total alone were
    paid for.
    """
    (result,) = PROTOCOL.parse_reply(reply(usage, {"content": "four or five"}), [REQUEST])
    tokens = (result.usage.tokens_in, result.usage.tokens_out)
    assert tokens == expected if expected else min(tokens) > 0


@pytest.mark.parametrize(
    ("usage", "message", "expected"),
    [
        (
            {"completion_tokens": 20, "completion_tokens_details": {"reasoning_tokens": 12}},
            {"content": "four"},
            12,
        ),
        ({"completion_tokens": 20, "reasoning_tokens": 12}, {"content": "four"}, 12),  # SGLang
        (
            {"completion_tokens": 20, "completion_tokens_details": {"reasoning_tokens": 99}},
            {"content": "four"},
            99,
        ),  # not in the completion
        (
            {"completion_tokens": 5, "total_tokens": 25},
            {"content": "four"},
            15,
        ),  # Gemini: in the total alone
        (
            {"completion_tokens": 20},
            {"content": "four", "reasoning": "2 + 2 is 4  "},
            14,
        ),  # 10 of 14 characters
        (
            {"completion_tokens": 20},
            {"content": "<think>it is 2 + 2</think> four"},
            15,
        ),  # 11 of 15
        (
            {"completion_tokens": 20, "completion_tokens_details": {"reasoning_tokens": 0}},
            {"content": "a", "reasoning": "b"},
            10,
        ),
        ({"completion_tokens": 20, "completion_tokens_details": None}, {"content": "four"}, 0),
        (
            {"prompt_tokens": 0, "completion_tokens": 50, "total_tokens": 250},
            {"content": "four"},
            0,
        ),
        (
            {"prompt_tokens": 20, "completion_tokens": 0, "total_tokens": 70},
            {"content": "four"},
            0,
        ),
        (
            {"completion_tokens": 25, "total_tokens": 130, "reasoning_tokens": 0},
            {"content": "four"},
            0,
        ),
        (
            {"completion_tokens": 100},
            {"content": "<think>" + "x" * 300 + "</think>four", "reasoning": "x" * 300},
            99,
        ),
        (None, {"content": "four"}, 0),
    ],
)
def test_tokens_of_reasoning(
    usage: dict[str, object] | None, message: dict[str, str], expected: int
) -> None:
    """What the server reports, or else the reasoning's share of the characters; a part of the
    tokens out.
    """
    reported = usage and {"prompt_tokens": 5, **usage}
    (result,) = PROTOCOL.parse_reply(reply(reported, message), [REQUEST])
    assert result.usage.tokens_reasoning == expected <= result.usage.tokens_out


def test_reported_tokens_of_reasoning_are_divided_among_samples() -> None:
    """Each has its part, and the first one the rest."""
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 30,
        "completion_tokens_details": {"reasoning_tokens": 11},
    }
    results = PROTOCOL.parse_reply(
        reply(usage, {"content": "four"}, {"content": "five"}), [REQUEST, REQUEST]
    )
    assert [(one.usage.tokens_out, one.usage.tokens_reasoning) for one in results] == [
        (15, 6),
        (15, 5),
    ]
