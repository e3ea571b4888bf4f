"""The OpenAI chat protocol as data: requests to bodies, replies to generations, failures to what is to be done."""

from __future__ import annotations

import email.utils
import ipaddress
import json
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from winnow.errors import ConfigError, ReaderError
from winnow.keys import request_key
from winnow.records import Generate, Generation, TooLong, Usage

if TYPE_CHECKING:
    import openai

_CHARACTERS_A_TOKEN = 4
_TOKENS_A_MESSAGE = 8
_TOO_LONG = re.compile(
    r"context (length|size|window)|exceed_context_size|max(imum)? model length|too many tokens", re.IGNORECASE
)
"""How OpenAI, vLLM and llama.cpp word it."""
_log = logging.getLogger(__name__)


class RetryableError(Exception):
    """A failure that another attempt may cure.

    `after` is the server's Retry-After in seconds, where it gave one; `throttled` says that it was only busy; `billed`
    that it may charge for an answer that was lost.
    """

    def __init__(self, why: str, *, after: float | None = None, throttled: bool = False, billed: bool = False) -> None:
        """Keep what happened."""
        super().__init__(why)
        self.after, self.throttled, self.billed = after, throttled, billed


@dataclass(frozen=True, slots=True)
class ChatProtocol:
    """How one model of one server is asked.

    Args:
        model: the server's name for the model.
        base_url: where the server is, with its version ("http://127.0.0.1:8000/v1").
        key_variable: the environment variable that holds the key; a server on this machine needs none.
        max_tokens_field: "max_tokens", or "max_completion_tokens" for OpenAI's reasoning models.
        extra: further fields of every request's body; null takes one away (`extra: {temperature: null}` for models that
            refuse it).

    """

    model: str
    base_url: str
    key_variable: str = "OPENAI_API_KEY"
    max_tokens_field: str = "max_tokens"
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse an address that is none, or that holds a secret."""
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"reader.base_url must be an http(s) address; received {parts.scheme}://{parts.hostname}.")
        if parts.username or parts.password or parts.query:
            raise ConfigError("reader.base_url must not hold a name, a password or a query: keys come from the environment.")

    def key(self) -> str:
        """Return the key from the environment; raise ConfigError where a remote server needs one and there is none."""
        value = os.environ.get(self.key_variable, "")
        if value or _is_loopback(urlsplit(self.base_url).hostname or ""):
            return value or "none"
        raise ConfigError(f"{self.base_url} needs a key: set the environment variable {self.key_variable}.")

    def scrub(self, text: str) -> str:
        """Return a text without the key, should a server have echoed it."""
        key = os.environ.get(self.key_variable, "")
        return text.replace(key, "[key]") if key else text

    def body(self, asked: Generate, samples: int = 1) -> dict[str, Any]:
        """Return a request's body."""
        decoding = asked.decoding
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": m.role, "content": m.content} for m in asked.messages],
            self.max_tokens_field: decoding.max_new_tokens,
            "temperature": decoding.temperature,
        }
        if decoding.temperature > 0:
            body |= {"top_p": decoding.top_p, "seed": int.from_bytes(request_key("seed", asked)[:4], "big") >> 1}
        if samples > 1:
            body["n"] = samples
        if decoding.logprobs:
            body["logprobs"] = True
        return {name: value for name, value in (body | dict(self.extra)).items() if value is not None}

    def most(self, asked: Generate, samples: int = 1) -> Usage:
        """Return what a call takes at most: its prompt at four characters a token, and full replies."""
        return Usage(estimated_tokens(asked), asked.decoding.max_new_tokens * samples)

    def generations(self, text: str, asked: Sequence[Generate]) -> list[Generation]:
        """Read a reply's text: one generation a sample; no choice, a filtered and a cut one are outcomes, not errors.

        The first sample of a call carries the prompt's tokens, for the server read it once.
        """
        try:
            reply = json.loads(text)
            choices = [_choice(choice) for choice in reply["choices"]]
            usage = _usage(reply.get("usage"), asked, choices)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"a reply that is not of the protocol ({type(error).__name__}: {self.scrub(text[:80])!r})"
            raise RetryableError(what, billed=True) from None
        if choices and len(choices) < len(asked):
            raise ReaderError(
                f"The server gave {len(choices)} of {len(asked)} samples: it knows no `n`. Set "
                "reader.engine.samples_per_call=1."
            )
        choices = choices or [Generation("", "empty")] * len(asked)
        written = [usage.tokens_out // len(asked)] * len(asked)
        written[0] += usage.tokens_out - sum(written)
        return [
            Generation(g.text, g.finish, Usage(0 if n else usage.tokens_in, out), logprobs=g.logprobs)
            for n, (g, out) in enumerate(zip(choices[: len(asked)], written, strict=True))
        ]

    def outcome(self, error: openai.OpenAIError) -> Generation | TooLong:
        """Turn a failure into its outcome, or raise what it calls for: RetryableError, or ReaderError for good."""
        import openai as api

        if isinstance(error, api.APITimeoutError):
            raise RetryableError("no answer in time", billed=True)
        if isinstance(error, api.APIConnectionError):
            raise RetryableError(self.scrub(f"connection failed: {error.__cause__ or error}"), billed=True)
        if not isinstance(error, api.APIStatusError):
            raise ReaderError(self.scrub(f"{type(error).__name__}: {error}"))
        return self.status(error.status_code, error.body, error.response.headers, str(error.code or ""))

    def status(self, status: int, body: object, headers: Mapping[str, str], code: str) -> Generation | TooLong:
        """Turn a refusal by HTTP status into its outcome; the same for single calls and for lines of a batch."""
        told = self.scrub(str(body))[:300]
        if code == "content_filter":
            return Generation("", "content_filter")
        if status in (400, 413) and (code == "context_length_exceeded" or _TOO_LONG.search(told)):
            return TooLong(told)
        if status in (408, 409, 429) or status >= 500:
            if code == "insufficient_quota":
                raise ReaderError(f"The server refuses for want of quota: {told}. What was answered is in the ledger.")
            raise RetryableError(f"HTTP {status}: {told}", after=_retry_after(headers), throttled=status in (429, 503))
        raise ReaderError(
            f"The server refused a request with HTTP {status}: {told}. Check the model ({self.model}), {self.base_url}, and "
            f"the key in {self.key_variable}. What was answered is in the ledger."
        )


def estimated_tokens(asked: Generate) -> int:
    """Return a prompt's length at four characters a token, and one and a half tokens a character beyond ASCII.

    No tokenizer of a remote model is at hand.
    """
    lengths = [
        (len(m.content), sum(not c.isascii() for c in m.content) if not m.content.isascii() else 0) for m in asked.messages
    ]
    return sum((every - other) // _CHARACTERS_A_TOKEN + 3 * other // 2 + _TOKENS_A_MESSAGE for every, other in lengths)


def _choice(choice: Mapping[str, Any]) -> Generation:
    listed = (choice.get("logprobs") or {}).get("content")
    logprobs = None if listed is None else tuple(float(token["logprob"]) for token in listed)
    text, finish = choice["message"].get("content") or "", str(choice.get("finish_reason") or "stop")
    if not isinstance(text, str):
        raise TypeError(f"content is {type(text).__name__}")
    return Generation("" if finish == "content_filter" else text.strip(), finish, logprobs=logprobs)


def _usage(told: Mapping[str, Any] | None, asked: Sequence[Generate], choices: Sequence[Generation]) -> Usage:
    if told:
        return Usage(int(told["prompt_tokens"]), int(told.get("completion_tokens") or 0))
    _log.warning("The server counts no tokens; they are estimated at four characters each.")
    return Usage(estimated_tokens(asked[0]), sum(len(c.text) for c in choices) // _CHARACTERS_A_TOKEN)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait, however it says so; None where nobody can read it."""
    try:
        if (value := headers.get("retry-after-ms")) is not None:
            return max(0.0, float(value) / 1000)
        if (value := headers.get("retry-after")) is None:
            return None
        if value[:1].isalpha():
            return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
        return max(0.0, float(value))
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
