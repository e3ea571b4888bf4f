"""Choices of a chat reply: texts, log-probabilities, and the finish reasons of known servers."""

import json
import logging
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from winnow.readers.stops import end_reply, find_stop
from winnow.records import Decoding
from winnow.requests import Generation, ToolCall

_UNUSABLE = re.compile("[\x00\ud800-\udfff]")
"""NUL, which ends a text elsewhere, and lone surrogates, which JSON can hold but UTF-8 cannot."""
_UNKNOWN_LOGPROB = -9999.0
"""Value that OpenAI and vLLM report for the unknown log-probability of a very unlikely token."""
_MAX_LOGPROB = 1e-3
"""Largest value that rounding may give the log-probability of a certain token."""
_log = logging.getLogger(__name__)
FAILED = "error"
"""Finish of a reply that a server failed to complete. It is not an answer; its call is retried."""
FINISH_REASONS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "stop", "eos", "eos_token", "stop_sequence", "end_turn", "word", "complete", "finished",
        ),
        "stop",
    ),
    **dict.fromkeys(
        (
            "length", "limit", "max_tokens", "max_output_tokens", "model_length",
            "model_context_window_exceeded",
        ),
        "length",
    ),
    **dict.fromkeys(
        (
            "content_filter", "safety", "recitation", "language", "blocklist", "prohibited_content",
            "spii", "image_safety", "refusal", "error_toxic", "sensitive", "guardrail_intervened",
        ),
        "content_filter",
    ),
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
    **dict.fromkeys(
        (
            "error", "abort", "aborted", "cancelled", "canceled", "error_limit", "other",
            "malformed_function_call", "function_call_filter", "load", "unload",
            "finish_reason_unspecified", "insufficient_system_resource", "network_error",
        ),
        FAILED,
    ),
}  # fmt: skip
"""Finish of a Generation by the reason that a server names, in lower case.

The names are used by OpenAI and Azure (stop, length, content_filter, tool_calls), vLLM (abort),
TGI (eos_token, stop_sequence), llama.cpp (eos, word, limit), Ollama (load, unload), Gemini
(MAX_TOKENS, SAFETY, ...), Anthropic (end_turn, max_tokens, refusal, tool_use, ...), Mistral
(model_length, error), Cohere (COMPLETE, ERROR_TOXIC, ...), DeepSeek (insufficient_system_resource),
Zhipu (sensitive, network_error), Bedrock (guardrail_intervened) and OpenRouter (error). Details may
follow a colon, as in Gemini's "content_filter: ...".
"""
TEXT_PARTS = frozenset({"text", "output_text"})
"""Kinds of parts that make up the text of a message."""
REASONING_FIELDS = ("reasoning_content", "reasoning")
"""Fields of a message in which servers return what a model wrote before its answer."""
IGNORED_PARTS = frozenset(
    {"reasoning", "thinking", "redacted_thinking", "tool_use", "function_call"}
)
"""Kinds of parts that accompany the text of a message."""


def parse_choices(
    choices: Sequence[Any], number: int, decoding: Decoding = Decoding()
) -> list[Generation]:
    """Parse the choices of a reply, in the order of their indices and without their usage.

    Args:
        choices: Choices as the server returned them.
        number: Number of requested samples. Choices beyond it are left out, which is logged.
        decoding: Settings of the request: stop strings, which some servers ignore, and the number
            of tokens at each position.

    Raises:
        TypeError, KeyError, ValueError, AttributeError: If a choice does not follow the protocol.
    """
    indices = [choice.get("index") for choice in choices]
    if any(index is not None for index in indices):
        if sorted(map(str, indices)) != sorted(map(str, range(len(indices)))):
            raise ValueError(f"the choices have the indices {indices}")
        choices = sorted(choices, key=lambda choice: int(choice["index"]))
    if len(choices) > number:
        _log.warning(
            "The server returned %d choices for %d samples. The first are used.",
            len(choices),
            number,
        )
    return [_parse_choice(choice, decoding) for choice in choices[:number]]


def _parse_choice(choice: Mapping[str, Any], decoding: Decoding) -> Generation:
    """Parse one choice of a reply, without its usage."""
    message = choice["message"]
    content, finish = (
        repair_text(_join_parts(message.get("content"))),
        read_finish(choice.get("finish_reason")),
    )
    text = content.strip()
    if finish == "content_filter":
        return Generation("", finish)
    reasoning, calls = _read_reasoning(message), _parse_calls(message)
    if (
        finish == "stop"
        and not text
        and not calls
        and any(message.get(name) for name in REASONING_FIELDS)
    ):
        _log.warning(
            "A reply has reasoning but no text. If all have, the server takes answers for "
            "reasoning: start it with the reasoning parser of this model, or without one."
        )
        finish = "empty"
    if finish != FAILED:
        text, finish = end_reply(content, finish, decoding.stop)
    raw_logprobs = choice.get("logprobs")
    if any(one in content for one in decoding.stop):
        raw_logprobs = _cut_logprobs(raw_logprobs, decoding.stop)
    logprobs = _parse_logprobs(raw_logprobs, text)
    tokens, top = _parse_tokens(raw_logprobs, decoding.top_logprobs) if logprobs else ((), ())
    return Generation(
        text,
        finish,
        logprobs=logprobs,
        tokens=tokens,
        top_logprobs=top,
        reasoning=reasoning,
        tool_calls=calls,
    )


def _cut_logprobs(reported: Any, stop: Sequence[str]) -> Any:
    """Return the reported log-probabilities up to the end of the first stop string, for a server
    that went on, or None if the tokens do not spell it.
    """
    if not isinstance(reported, Mapping) or not isinstance(reported.get("content"), list):
        return reported
    entries = reported["content"]
    tokens = [str(one.get("token", "")) if isinstance(one, Mapping) else "" for one in entries]
    number = find_stop("".join, tokens, stop)
    return None if number is None else {**reported, "content": entries[:number]}


def _read_reasoning(message: Mapping[str, Any]) -> str:
    """Return the reasoning that a server returned with the text, or "" if it returned none."""
    fields = [message.get(name) for name in REASONING_FIELDS]
    parts = message["content"] if isinstance(message.get("content"), list) else []
    fields += [
        part.get(part["type"]) or part.get("text")
        for part in parts
        if part["type"] in ("reasoning", "thinking")
    ]
    return repair_text(next((text for text in map(_join_texts, fields) if text), "")).strip()


def _join_texts(value: Any) -> str:
    """Return a text, or the joined parts of a list (Mistral's reasoning); "" for anything else."""
    parts = value if isinstance(value, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return (
        value
        if isinstance(value, str)
        else "".join(text for text in texts if isinstance(text, str))
    )


def _parse_calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """Parse the tool calls of a message. Keep arguments as written, and skip invalid calls."""
    raw_calls = message.get("tool_calls")
    calls = (
        [call for call in raw_calls if isinstance(call, Mapping)]
        if isinstance(raw_calls, list)
        else []
    )
    functions = [
        (call.get("id"), call["function"])
        for call in calls
        if isinstance(call.get("function"), Mapping)
    ]
    return tuple(
        ToolCall(
            repair_text(str(function.get("name") or "")),
            _read_arguments(function.get("arguments")),
            repair_text(str(id_ or "")),
        )
        for id_, function in functions
    )


def _read_arguments(arguments: Any) -> str:
    """Return the arguments of a call as text; some servers return them as an object."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return repair_text(text)


def _join_parts(content: Any) -> str:
    """Return a message's text or joined text parts; skip reasoning, and refuse other parts."""
    if content is None:
        return ""
    if isinstance(content, list):
        kinds = {part["type"] for part in content}
        if unknown := kinds - TEXT_PARTS - IGNORED_PARTS:
            raise ValueError(f"content has parts of the kinds {sorted(map(str, unknown))}")
        return "".join(part["text"] for part in content if part["type"] in TEXT_PARTS)
    if not isinstance(content, str):
        raise TypeError(f"content is {type(content).__name__}")
    return content


def read_finish(reason: Any) -> str:
    """Return the `Generation.finish` of a reply. An unknown reason is kept as it is, and logged."""
    if reason is None or reason == "":
        return "stop"
    text = repair_text(str(reason))
    name = text.lower()
    finish = FINISH_REASONS.get(name) or FINISH_REASONS.get(name.partition(":")[0].strip())
    if finish is None:
        _log.warning(
            "The server reports the finish reason %r, which is not known. The reply is used as "
            "it is.",
            text,
        )
        return text
    return finish


def repair_text(text: str) -> str:
    """Replace NUL and lone surrogates with U+FFFD so that the text can be stored, and log it."""
    repaired, number = _UNUSABLE.subn("\N{REPLACEMENT CHARACTER}", text)
    if number:
        _log.warning("A reply had %d characters that no text may have. They were replaced.", number)
    return repaired


def _parse_tokens(reported: Any, top: int) -> tuple[tuple[str, ...], tuple[dict[str, float], ...]]:
    """Parse the texts of a reply's tokens and the most probable ones per position, if requested.

    Raises:
        ValueError: If the server does not report as many as the request asks for, on which the plan
            relies.
    """
    if not top:
        return (), ()
    entries = reported["content"]
    best = [
        {_read_token(one): min(float(one["logprob"]), 0.0) for one in entry["top_logprobs"][:top]}
        for entry in entries
    ]
    if not all(best):
        raise ValueError("the server reports no top_logprobs")
    return tuple(map(_read_token, entries)), tuple(best)


def _read_token(entry: Mapping[str, Any]) -> str:
    return repair_text(str(entry["token"]))


def _parse_logprobs(reported: Any, text: str) -> tuple[float, ...] | None:
    """Parse a reply's token log-probabilities; return None if they are missing or impossible."""
    try:
        entries = (reported or {}).get("content")
        logprobs = None if entries is None else tuple(float(entry["logprob"]) for entry in entries)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        logprobs = (math.nan,)
    if logprobs is None:
        return None
    if (text and not logprobs) or not all(
        _UNKNOWN_LOGPROB < value <= _MAX_LOGPROB for value in logprobs
    ):
        _log.warning(
            "The server reported log-probabilities that are missing, not numbers, or impossible. "
            "They are omitted."
        )
        return None
    return tuple(min(value, 0.0) for value in logprobs)
