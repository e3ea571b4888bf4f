"""The token counts that a server reports with a reply, checked against its texts."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import structs

from winnow.readers.token_estimates import estimate_prompt_tokens, estimate_text_tokens
from winnow.requests import Generate, Generation, Usage
from winnow.text.final import compute_reasoning_share

_MAX_PLAUSIBLE_TOKENS = 10**9
"""Token counts of this size or more are taken for an error of the server."""
_log = logging.getLogger(__name__)


def list_texts(choice: Generation) -> list[str]:
    """Return the texts of a choice: the reply, its reasoning, and its calls of tools."""
    return [
        choice.text,
        choice.reasoning,
        *(text for call in choice.tool_calls for text in structs.astuple(call)),
    ]


def parse_usage(
    reported: Any, requests: Sequence[Generate], choices: Sequence[Generation]
) -> Usage:
    """Parse a reply's token counts; estimate missing or impossible ones, as the reply was paid for.

    Gemini and xAI leave tokens of reasoning out of `completion_tokens`; they are what
    `total_tokens` has besides, or more than the completion has.
    """
    tokens_in, tokens_out = (
        _parse_count(reported, "prompt_tokens"),
        _parse_count(reported, "completion_tokens"),
    )
    tokens_in = tokens_in or None
    rest = (_parse_count(reported, "total_tokens") or 0) - (tokens_in or 0)
    if tokens_in is not None and rest > (tokens_out or 0):
        tokens_out = rest
    reported_count = _read_reasoning_tokens(reported) or 0
    if tokens_out and reported_count > tokens_out:
        tokens_out += reported_count
    if not tokens_out and any(map(any, map(list_texts, choices))):
        tokens_out = None
    if tokens_in is None or tokens_out is None:
        _log.warning(
            "The server reported no token counts or implausible ones. They are estimated by their "
            "characters."
        )
    return Usage(
        estimate_prompt_tokens(requests[0]) if tokens_in is None else tokens_in,
        (
            sum(estimate_text_tokens(text) for one in choices for text in list_texts(one))
            if tokens_out is None
            else tokens_out
        ),
    )


def divide_usage(usage: Usage, reported: Any, choices: Sequence[Generation]) -> list[Usage]:
    """Divide the usage of a call among its choices.

    The first one has the tokens of the prompt, because the server read it once. Tokens out are
    divided equally, since servers report their sum.

    Args:
        usage: Tokens of the call (see `parse_usage`).
        reported: What the server reported.
        choices: Choices of the reply, at least one.
    """
    tokens_in, tokens_out = (
        [usage.tokens_in] + [0] * (len(choices) - 1),
        _divide(usage.tokens_out, len(choices)),
    )
    return list(map(Usage, tokens_in, tokens_out, _count_reasoning(reported, choices, tokens_out)))


def _count_reasoning(
    reported: Any, choices: Sequence[Generation], tokens_out: Sequence[int]
) -> list[int]:
    """Return the tokens of reasoning of each choice, which are part of its `tokens_out`.

    They are what the server reports, or those of the total that belong neither to prompt nor text,
    divided among the choices. Without either, the reasoning that it returned has the share of the
    tokens that it has of the characters.
    """
    calls = [sum(map(len, list_texts(choice)[2:])) for choice in choices]
    shares = [
        compute_reasoning_share(choice.text, choice.reasoning, others)
        for choice, others in zip(choices, calls, strict=True)
    ]
    reported_count = _read_reasoning_tokens(reported)
    if reported_count == 0 and not any(shares):
        return [0] * len(choices)
    parts = [_parse_count(reported, name) for name in ("prompt_tokens", "completion_tokens")]
    whole = _parse_count(reported, "total_tokens") or 0
    besides = whole - sum(filter(None, parts)) if all(parts) else 0
    if (count := reported_count or besides) > 0:
        return [
            min(part, tokens)
            for part, tokens in zip(_divide(count, len(choices)), tokens_out, strict=True)
        ]
    return [round(share * tokens) for share, tokens in zip(shares, tokens_out, strict=True)]


def _read_reasoning_tokens(reported: Any) -> int | None:
    """Return the tokens of reasoning that a server reports, as OpenAI or SGLang do, or None."""
    details = reported.get("completion_tokens_details") if isinstance(reported, Mapping) else None
    reported_count = _parse_count(details, "reasoning_tokens")
    return _parse_count(reported, "reasoning_tokens") if reported_count is None else reported_count


def _divide(count: int, number: int) -> list[int]:
    """Divide a count into equal parts, of which the first one has the rest."""
    part = count // number
    return [count - part * (number - 1)] + [part] * (number - 1)


def _parse_count(reported: Any, name: str) -> int | None:
    """Return a reported number of tokens, or None if it is missing or impossible."""
    with suppress(ValueError, KeyError, TypeError, AttributeError, OverflowError):
        count = int(reported[name])
        return count if 0 <= count < _MAX_PLAUSIBLE_TOKENS else None
    return None
