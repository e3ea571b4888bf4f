"""The OpenAI chat protocol: request bodies, parsing of replies, and handling of failures."""

from __future__ import annotations

import email.utils
import ipaddress
import json
import logging
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from winnow.errors import CallRefusedError, ConfigError, ReaderError
from winnow.keys import request_key
from winnow.records import Generate, Generation, TooLong, Usage

if TYPE_CHECKING:
    import openai

_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
"""A lone surrogate, which JSON may hold and UTF-8 cannot."""
_TOKEN_LIMIT = 10**9
"""No prompt or reply has as many tokens."""
_CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_MESSAGE = 8
_MODERATED = re.compile(r"invalid_prompt|content.?(policy|management|filter)|moderation|flagged|safety", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context (length|size|window)|exceed_context_size|max(imum)? model length|too many tokens", re.IGNORECASE
)
"""How OpenAI, vLLM and llama.cpp report an exceeded context length."""
_DATE = re.compile(r"-(\d{3,8}|\d{4}-\d{2}-\d{2})")
"""The date or version that a server appends to the name of a model."""
_log = logging.getLogger(__name__)


class ModelMismatchError(ReaderError):
    """Raised when a server answers with another model than was requested."""


class RetryableError(Exception):
    """Raised when a call failed and another attempt may succeed.

    Attributes:
        after: Seconds to wait according to the server's Retry-After header, or None.
        throttled: Whether the server was merely busy.
        billed: Whether the server may charge for the lost reply.

    """

    def __init__(self, reason: str, *, after: float | None = None, throttled: bool = False, billed: bool = False) -> None:
        """Store the reason and what is known about the failure."""
        super().__init__(reason)
        self.after, self.throttled, self.billed = after, throttled, billed


@dataclass(frozen=True, slots=True)
class ChatProtocol:
    """Builds requests to one model on one server and parses the replies.

    Args:
        model: Name of the model on the server.
        base_url: Address of the server, including the API version ("http://127.0.0.1:8000/v1").
        api_key_variable: Environment variable that contains the API key. A server on this machine needs no key.
        max_tokens_field: "max_tokens", or "max_completion_tokens" for OpenAI's reasoning models.
        extra: Additional fields of every request body. null removes a field (`extra: {temperature: null}` for models that
            reject it).
        served_model: Name of the model that the server reports, if it is not that of the request; "*" accepts any name.

    """

    model: str
    base_url: str
    api_key_variable: str = "OPENAI_API_KEY"
    max_tokens_field: str = "max_tokens"
    extra: Mapping[str, Any] = field(default_factory=dict)
    served_model: str = ""

    def __post_init__(self) -> None:
        """Raise ConfigError if the address is invalid or contains a secret."""
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"reader.base_url must be an http(s) address; received {parts.scheme}://{parts.hostname}.")
        if parts.username or parts.password or parts.query:
            raise ConfigError("reader.base_url must not contain a name, password or query: keys come from the environment.")

    def key(self) -> str:
        """Read the key from the environment; raise ConfigError if it is missing and the server is remote."""
        value = os.environ.get(self.api_key_variable, "")
        if value or _is_loopback(urlsplit(self.base_url).hostname or ""):
            return value or "none"
        raise ConfigError(f"{self.base_url} needs a key: set the environment variable {self.api_key_variable}.")

    def scrub(self, text: str) -> str:
        """Mask the key in a text, in case a server echoed it."""
        key = os.environ.get(self.api_key_variable, "")
        return text.replace(key, "[key]") if key else text

    def body(self, request: Generate, samples: int = 1) -> dict[str, Any]:
        """Build the body of a request."""
        decoding = request.decoding
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
            self.max_tokens_field: decoding.max_new_tokens,
            "temperature": decoding.temperature,
        }
        if decoding.temperature > 0:
            body |= {"top_p": decoding.top_p, "seed": int.from_bytes(request_key("seed", request)[:4], "big") >> 1}
        if samples > 1:
            body["n"] = samples
        if decoding.logprobs:
            body["logprobs"] = True
        return {name: value for name, value in (body | dict(self.extra)).items() if value is not None}

    def max_usage(self, request: Generate, samples: int = 1) -> Usage:
        """Estimate the maximum usage of a call from the length of its prompt and replies of full length."""
        return Usage(estimated_tokens(request), request.decoding.max_new_tokens * samples)

    def generations(self, text: str, requests: Sequence[Generate]) -> list[Generation]:
        """Parse a reply into one generation per sample.

        A missing, filtered or truncated choice is an outcome, not an error. The tokens of the prompt are assigned to the
        first sample, because the server read the prompt once.
        """
        try:
            reply = json.loads(text)
            served = _without_half_characters(str(reply.get("model") or ""))
            if not isinstance(reply["choices"], list):
                raise TypeError(f"choices is {type(reply['choices']).__name__}")
            choices = [_parse_choice(choice) for choice in reply["choices"]]
            usage = _parse_usage(reply.get("usage"), requests, choices)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
            reason = f"a reply that is not of the protocol ({type(error).__name__}: {self.scrub(text[:80])!r})"
            raise RetryableError(reason, billed=True) from None
        self._check_model(served)
        if choices and len(choices) < len(requests):
            raise ReaderError(
                f"The server gave {len(choices)} of {len(requests)} samples: it does not support `n`. Set "
                "reader.engine.samples_per_call=1."
            )
        choices = choices or [Generation("", "empty")] * len(requests)
        tokens_out = [usage.tokens_out // len(requests)] * len(requests)
        tokens_out[0] += usage.tokens_out - sum(tokens_out)
        tokens_in = [usage.tokens_in] + [0] * (len(requests) - 1)
        return [
            replace(choice, usage=Usage(prompt_tokens, reply_tokens), model=served)
            for choice, prompt_tokens, reply_tokens in zip(choices[: len(requests)], tokens_in, tokens_out, strict=True)
        ]

    def _check_model(self, served: str) -> None:
        """Check that a reply is from the requested model, of which a server may report the path, the date or the revision.

        Raises:
            ModelMismatchError: If it is from another model.

        """
        expected = self.served_model or str(self.extra.get("model", self.model))
        if not served or expected == "*" or _is_same_model(expected, served):
            return
        raise ModelMismatchError(
            f"{self.base_url} answered with the model {served!r} instead of {expected!r}, and the reply was not stored. "
            f"Correct reader.base, or accept this model with reader.engine.served_model='{served}'."
        )

    def outcome(self, error: openai.OpenAIError) -> Generation | TooLong:
        """Convert a failure to an outcome, or raise RetryableError or, if the failure is permanent, ReaderError."""
        import openai as api

        if isinstance(error, api.APITimeoutError):
            raise RetryableError("no reply in time", billed=True)
        if isinstance(error, api.APIConnectionError):
            if isinstance(error.__cause__, ReaderError):
                raise error.__cause__
            raise RetryableError(self.scrub(f"connection failed: {error.__cause__ or error}"), billed=True)
        if not isinstance(error, api.APIStatusError):
            raise ReaderError(self.scrub(f"{type(error).__name__}: {error}"))
        return self.status(error.status_code, error.body, error.response.headers, str(error.code or ""))

    def status(self, status: int, body: object, headers: Mapping[str, str], code: str) -> Generation | TooLong:
        """Convert a refusal of a call or a batch line to an outcome by its HTTP status, or raise an error."""
        message = self.scrub(str(body))[:300]
        if code == "content_filter":
            return Generation("", "content_filter")
        if status in (400, 413) and (code == "context_length_exceeded" or _TOO_LONG.search(message)):
            return TooLong(message)
        if status in (408, 409, 429) or status >= 500:
            if code == "insufficient_quota":
                raise ReaderError(f"The server refuses: the quota is exhausted ({message}). Finished calls are in the ledger.")
            raise RetryableError(f"HTTP {status}: {message}", after=_retry_after(headers), throttled=status in (429, 503))
        moderated = status in (400, 422) and _MODERATED.search(f"{code} {message}")
        error_class = CallRefusedError if moderated else ReaderError  # other refusals do not depend on the prompt
        raise error_class(
            f"The server refused a request with HTTP {status}: {message}. Check the model ({self.model}), {self.base_url} "
            f"and the key in {self.api_key_variable}. Finished calls are in the ledger."
        )


def _is_same_model(expected: str, served: str) -> bool:
    """Return whether two names may be of one model: they differ in case, path, revision, tag, file type or date only."""
    names = [name.lower() for name in (expected, served)]
    owners = [name.split("/")[0] for name in names if name.count("/") == 1 and not name.startswith("/")]
    if len(owners) == 2 and owners[0] != owners[1]:
        return False
    plain, served_name = (
        PurePosixPath(re.split("[@:]", name)[0]).name.removesuffix(".gguf").removesuffix("-latest") for name in names
    )
    return served_name == plain or bool(_DATE.fullmatch(served_name.removeprefix(plain)))


def estimated_tokens(request: Generate) -> int:
    """Estimate the length of a prompt: four ASCII characters per token, and 1.5 tokens per other character.

    The tokenizers of remote models are not available.
    """
    lengths = [
        (len(m.content), sum(not c.isascii() for c in m.content) if not m.content.isascii() else 0) for m in request.messages
    ]
    return sum(
        (total - non_ascii) // _CHARACTERS_PER_TOKEN + 3 * non_ascii // 2 + _TOKENS_PER_MESSAGE for total, non_ascii in lengths
    )


def _without_half_characters(text: str) -> str:
    return _HALF_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", text)


def _parse_choice(choice: Mapping[str, Any]) -> Generation:
    text = choice["message"].get("content")
    text = "" if text is None else text
    if not isinstance(text, str):
        raise TypeError(f"content is {type(text).__name__}")
    text = _without_half_characters(text)
    finish = _without_half_characters(str(choice.get("finish_reason") or "stop"))
    return Generation(
        "" if finish == "content_filter" else text.strip(), finish, logprobs=_parse_logprobs(choice.get("logprobs"))
    )


def _parse_logprobs(reported: Any) -> tuple[float, ...] | None:
    """Parse the log-probabilities of a reply; return None if there are none or they are not numbers."""
    try:
        entries = (reported or {}).get("content")
        logprobs = None if entries is None else tuple(float(entry["logprob"]) for entry in entries)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        logprobs = (math.nan,)
    if logprobs is not None and any(math.isnan(value) for value in logprobs):
        _log.warning("The server reports log-probabilities that are not numbers; they are left out.")
        return None
    return logprobs


def _parse_usage(reported: Any, requests: Sequence[Generate], choices: Sequence[Generation]) -> Usage:
    """Parse the token counts of a reply, or estimate them if they are missing or impossible: the reply was paid for."""
    with suppress(ValueError, KeyError, TypeError, AttributeError, OverflowError):
        usage = Usage(int(reported["prompt_tokens"]), int(reported.get("completion_tokens") or 0))
        if 0 <= usage.tokens_in < _TOKEN_LIMIT and 0 <= usage.tokens_out < _TOKEN_LIMIT:
            return usage
    _log.warning("The server reports no token counts, or impossible ones; they are estimated at four characters per token.")
    return Usage(estimated_tokens(requests[0]), sum(len(c.text) for c in choices) // _CHARACTERS_PER_TOKEN)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Parse a Retry-After header of any format into seconds; return None if there is none or it cannot be parsed."""
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
