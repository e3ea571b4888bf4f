"""The OpenAI chat protocol: building request bodies, parsing replies and classifying failures.

A failure is either a result (a filtered reply, or a prompt that is too long), worth a retry, or
permanent.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from msgspec import structs

from winnow.errors import CallRefusedError, ConfigError, ReaderError, check_address, check_choice
from winnow.formats.http import parse_retry_after
from winnow.formats.secrets import mask_secret
from winnow.keys import compute_request_key
from winnow.modeling.tool_calls import encode_messages, encode_tools
from winnow.readers.choices import FAILED, parse_choices, repair_text
from winnow.readers.model_names import is_same_model
from winnow.readers.openai_errors import ModelMismatchError, RetryableError, read_reason
from winnow.readers.reported_usage import divide_usage, list_texts, parse_usage
from winnow.requests import Generate, Generation, Message, TooLong

if TYPE_CHECKING:
    import openai

_MAX_MASKED = 2000
"""Number of characters of a text that a message may quote, which are searched for the API key."""
_MAX_TOKEN_CHARACTERS, _MAX_PLAUSIBLE_EXCESS = 300, 1_000_000
"""Maximum plausible characters of a reply: per token, and in addition for the whole reply."""
_MODERATION = re.compile(
    r"invalid_prompt|content.?(policy|management|filter)|moderation|flagged|safety(?!_)",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"(context|model) (length|size|window)|exceed_context_size|too many tokens|(prompt|input|"
    r"request) is too long|token count [^.]{0,40}exceeds|tokens \+ .?max_new_tokens.? must be|"
    r"exceeds [^.]{0,40}(number of tokens|context)",
    re.IGNORECASE,
)
"""Prompt-too-long phrases of OpenAI, Azure, vLLM, TGI, llama.cpp, Gemini, Anthropic and Mistral."""
_RETIRED = frozenset(("model_not_found", "model_deprecated", "DeploymentNotFound"))
"""Codes by which OpenAI and Azure report that a model does not exist, or no longer."""
_COMMENTS = re.compile(r"\A(?:\ufeff|\s|:[^\n]*\n)+")
"""What may precede a reply's JSON: a byte-order mark, and OpenRouter's keep-alive comments."""
_log = logging.getLogger(__name__)


ModelChange = Literal["allow", "mark", "stop"]
"""What follows if a server answers with another model than before."""


@dataclass(frozen=True, slots=True)
class ChatProtocol:
    """Builds requests to one model on one server and parses the replies.

    Args:
        model: Name of the model on the server.
        base_url: Address of the server, including the API version ("http://127.0.0.1:8000/v1").
        api_key_variable: Environment variable that contains the API key. A server on this machine
            needs no key.
        max_tokens_field: Name of the request field that limits the length of a reply: "max_tokens",
            or "max_completion_tokens" for OpenAI's reasoning models.
        extra: Additional fields of every request body. null removes a field: `extra: {temperature:
            null}` is for models that reject a temperature.
        served_model: Name of the model that the server reports, if it differs from the request's;
            "*" accepts any name.
        model_change: "stop" refuses replies of another model than the first one that the server
            reported in this run.
    """

    model: str
    base_url: str
    api_key_variable: str = "OPENAI_API_KEY"
    max_tokens_field: str = "max_tokens"
    extra: Mapping[str, Any] = field(default_factory=dict)
    served_model: str = ""
    model_change: ModelChange = "mark"
    reported_models: set[str] = field(default_factory=set, compare=False)
    """Names of models that the server has reported so far."""

    def __post_init__(self) -> None:
        check_choice("reader.engine.model_change", self.model_change, ModelChange)
        check_address(
            "reader.engine.base_url",
            self.base_url,
            f"Set the environment variable {self.api_key_variable} to the API key instead.",
        )

    def read_api_key(self) -> str:
        """Read the API key from the environment.

        Returns:
            The key, or "none" if it is not set and the server runs on this machine.

        Raises:
            ConfigError: If the key is not set and the server is remote.
        """
        api_key = os.environ.get(self.api_key_variable, "")
        if api_key or is_loopback(self.base_url):
            return api_key or "none"
        raise ConfigError(
            f"{self.base_url} needs an API key: set the environment variable "
            f"{self.api_key_variable}."
        )

    def mask_api_key(self, text: str) -> str:
        """Return the start of a text with "[key]" for the API key, which errors may repeat."""
        return mask_secret(text[:_MAX_MASKED], os.environ.get(self.api_key_variable, ""))

    def build_body(self, request: Generate, samples: int = 1) -> dict[str, Any]:
        """Build the JSON body of a call that requests one or more samples of a prompt."""
        decoding = request.decoding
        body: dict[str, Any] = {
            "model": self.model,
            "messages": encode_messages(request.messages),
            self.max_tokens_field: decoding.max_new_tokens,
            "temperature": decoding.temperature,
        }
        if decoding.temperature > 0:
            body |= {
                "top_p": decoding.top_p,
                "seed": int.from_bytes(compute_request_key("seed", request)[:4], "big") >> 1,
            }
        if decoding.stop:
            body["stop"] = list(decoding.stop)
        if samples > 1:
            body["n"] = samples
        if decoding.logprobs:
            body["logprobs"] = True
        if decoding.top_logprobs:
            body["top_logprobs"] = decoding.top_logprobs
        if request.tools:
            body["tools"] = encode_tools(request.tools)
        return {
            name: value for name, value in (body | dict(self.extra)).items() if value is not None
        }

    def parse_reply(self, text: str, requests: Sequence[Generate]) -> list[Generation]:
        """Parse a reply into one Generation per sample.

        A missing, filtered or truncated choice is a result, not an error, and so is one that the
        server could not complete if there are others (its finish is `FAILED`). The tokens of the
        prompt are assigned to the first sample, because the server read the prompt once.

        Args:
            text: JSON text of the reply.
            requests: Requests of the call: samples of one prompt.

        Raises:
            RetryableError: If the reply does not follow the protocol, or if the server says that it
                failed.
            CallRefusedError: If the reply contains the API key.
            ReaderError: If there are fewer choices than requests, or if another model replied.
        """
        try:
            reply = json.loads(_COMMENTS.sub("", text))
            served_model = repair_text(str(reply.get("model") or ""))
            if not isinstance(reply["choices"], list):
                raise TypeError(f"choices is {type(reply['choices']).__name__}")
            is_failure = any(part.get("error") for part in (reply, *reply["choices"]))
            choices = (
                []
                if is_failure
                else parse_choices(reply["choices"], len(requests), requests[0].decoding)
            )
            usage = parse_usage(reply.get("usage"), requests, choices)
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            IndexError,
            OverflowError,
            RecursionError,
        ) as error:
            excerpt = self.mask_api_key(text)[:80]
            reason = (
                f"the reply does not follow the chat protocol ({type(error).__name__}: {excerpt!r})"
            )
            raise RetryableError(reason, billed=True) from None
        most = _MAX_TOKEN_CHARACTERS * requests[0].decoding.max_new_tokens + _MAX_PLAUSIBLE_EXCESS
        longest = max((sum(map(len, list_texts(choice))) for choice in choices), default=0)
        if longest > most:
            reason = (
                f"a reply of {longest} characters to a request for "
                f"{requests[0].decoding.max_new_tokens} tokens"
            )
            raise RetryableError(reason, billed=True)
        self._check_secrecy(
            [
                served_model,
                *(text for choice in choices for text in (*list_texts(choice), choice.finish)),
            ]
        )
        self.check_model(served_model)
        if is_failure:
            raise RetryableError("the reply reports an error beside its choices", billed=True)
        if choices and all(choice.finish == FAILED for choice in choices):
            reasons = self.mask_api_key(
                ", ".join(str(choice.get("finish_reason")) for choice in reply["choices"])
            )
            raise RetryableError(
                f"the server reports a failure (finish_reason {reasons[:80]})", billed=True
            )
        if choices and len(choices) < len(requests):
            raise ReaderError(
                f"The server returned {len(choices)} of {len(requests)} samples, because it does "
                "not support several samples per call (`n`). Set "
                "reader.engine.samples_per_call=1."
            )
        choices = choices or [Generation("", "empty")] * len(requests)
        usages = divide_usage(usage, reply.get("usage"), choices)
        return [
            structs.replace(choice, usage=part, model=served_model)
            for choice, part in zip(choices, usages, strict=True)
        ]

    def _check_secrecy(self, texts: Sequence[str]) -> None:
        """Raise CallRefusedError if a reply contains the API key, which would be stored with it."""
        api_key = os.environ.get(self.api_key_variable, "")
        if api_key and any(api_key in text for text in texts):
            raise CallRefusedError(
                f"A reply of {self.base_url} contains the API key in {self.api_key_variable}, and "
                "was not stored. Check what the server does with its requests, and revoke the "
                "key if others can see its replies."
            )

    def check_model(self, served_model: str) -> None:
        """Check that a reply is from the requested model.

        Args:
            served_model: Name of the model that the server reports. It may include a path, a date
                or a revision. "" means that the server reports none.

        Raises:
            ModelMismatchError: If the reply is from another model.
        """
        expected_model = self.served_model or str(self.extra.get("model", self.model))
        if not served_model or expected_model == "*" or is_same_model(expected_model, served_model):
            self._check_change(served_model)
            return
        masked_name = self.mask_api_key(served_model)
        raise ModelMismatchError(
            f"{self.base_url} answered with the model {masked_name!r} instead of "
            f"{expected_model!r}, and the "
            "reply was not stored. Correct reader.base, or accept this model with "
            f"reader.engine.served_model='{masked_name}'."
        )

    def _check_change(self, served_model: str) -> None:
        """Raise ModelMismatchError if the reported model changed and `model_change` is "stop"."""
        self.reported_models.update([served_model] if served_model else [])
        if self.model_change == "stop" and len(self.reported_models) > 1:
            names = self.mask_api_key(", ".join(sorted(self.reported_models)))
            raise ModelMismatchError(
                f"{self.base_url} answered with several models ({names}); the last reply was not "
                "stored. Pin a snapshot with reader.base, or accept both with "
                "reader.engine.model_change=mark."
            )

    def convert_error(self, error: openai.OpenAIError) -> Generation | TooLong:
        """Convert an error of the openai package to a result, or raise the appropriate error.

        Raises:
            RetryableError: If another attempt may succeed.
            ReaderError: If the failure is permanent.
        """
        import httpx
        import openai as api

        never_sent = isinstance(
            error.__cause__, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout
        )
        if isinstance(error, api.APITimeoutError):
            raise RetryableError("the server did not reply in time", billed=not never_sent)
        if isinstance(error, api.APIConnectionError):
            if isinstance(error.__cause__, ReaderError):
                raise error.__cause__
            raise RetryableError(
                self.mask_api_key(f"the connection failed: {error.__cause__ or error}"),
                billed=not never_sent,
            )
        if not isinstance(error, api.APIStatusError):
            raise ReaderError(self.mask_api_key(f"{type(error).__name__}: {error}"))
        return self.convert_refusal(
            error.status_code, error.body, error.response.headers, str(error.code or "")
        )

    def convert_refusal(
        self, status: int, body: object, headers: Mapping[str, str], code: str
    ) -> Generation | TooLong:
        """Convert a refused call to a result, or raise the error that the failure calls for.

        Args:
            status: HTTP status of the call or of the line of a batch.
            body: Body of the error, for the message.
            headers: HTTP headers, of which Retry-After is read.
            code: Error code of the API; "" if there is none.

        Raises:
            RetryableError: If another attempt may succeed.
            CallRefusedError: If the prompt was refused by moderation.
            ReaderError: If the failure is permanent and does not depend on the prompt.
        """
        message = self.mask_api_key(str(body))[:300]
        reason = read_reason(body)
        if code == "content_filter":
            return Generation("", "content_filter")
        if status in (400, 413, 422, 500) and (
            code == "context_length_exceeded" or _TOO_LONG.search(reason)
        ):
            return TooLong(message)
        if status in (408, 409, 425, 429, 499) or status >= 500:
            if code == "insufficient_quota":
                raise ReaderError(
                    f"The server refused a request because the quota is exhausted ({message}). "
                    "Finished calls are in the ledger. Increase the quota and run the command "
                    "again."
                )
            raise RetryableError(
                f"HTTP {status}: {message}",
                after=parse_retry_after(headers),
                throttled=status in (429, 503),
                billed=status in (504, 524),
            )
        if code in _RETIRED or (status == 404 and "model" in reason.lower()):
            raise ReaderError(
                f"The server does not serve the model {self.model} (HTTP {status}: {message}). If "
                "it was retired, compare with one that is served, such as "
                "reader.base=gpt-4.1-mini; results of two models are never mixed."
            )
        is_moderated = status in (400, 422) and _MODERATION.search(f"{code} {reason}")
        error_class = CallRefusedError if is_moderated else ReaderError
        raise error_class(
            f"The server refused a request with HTTP {status}: {message}. Check the model "
            f"({self.model}), the address ({self.base_url}) and the API key in "
            f"{self.api_key_variable}. Finished calls are in the ledger."
        )


def is_begun(messages: Sequence[Message]) -> bool:
    """Return whether the last message is the beginning of a reply that the model continues."""
    return messages[-1].role == "assistant"


def is_loopback(address: str) -> bool:
    """Return whether the address of a server means this machine."""
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
