"""Servers' extensions of the OpenAI chat protocol: versions, rendered prompts and likelihoods.

A dialect changes no reply. It names the further endpoints of a kind of server, which are next to
its folder "/v1".
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from winnow.errors import ConfigError, ReaderError
from winnow.modeling.tool_calls import encode_messages
from winnow.readers.openai_protocol import is_begun
from winnow.requests import Likelihood, Message, Score, Usage

_REPLACED = -9999.0
"""Log-probability that vLLM reports in place of one that JSON cannot represent."""
SendRequest = Callable[[str, Mapping[str, Any] | None], Awaitable[Any]]
"""Function that sends JSON to a server path, or reads the path for None, and returns its JSON."""


@dataclass(frozen=True)
class Dialect:
    """A server with the chat protocol only.

    Attributes:
        has_version: Whether the server reports its version.
        has_likelihoods: Whether the server computes the likelihood of a given text.
        is_greedy_only: Whether the server ignores temperatures and does not report
            log-probabilities.
        continuation: Fields of a request whose last message is the beginning of the reply; none if
            the server has no such fields and would take the message for a finished reply.
    """

    has_version: ClassVar[bool] = False
    has_likelihoods: ClassVar[bool] = False
    is_greedy_only: ClassVar[bool] = False
    continuation: ClassVar[Mapping[str, Any]] = {}

    async def read_version(self, send: SendRequest) -> str | None:  # noqa: ARG002 (for subclasses)
        """Return the version that the server reports, or None if it reports none."""
        return None

    async def render(
        self,
        send: SendRequest,  # noqa: ARG002 (for subclasses)
        model: str,  # noqa: ARG002
        messages: Sequence[Message],  # noqa: ARG002
    ) -> str | None:
        """Return the prompt rendered by the server's chat template, or None if it does not say."""
        return None

    async def score(
        self,
        send: SendRequest,  # noqa: ARG002 (for subclasses)
        model: str,
        request: Likelihood,  # noqa: ARG002
        end_token: str,  # noqa: ARG002
        check_model: Callable[[str], None],  # noqa: ARG002
    ) -> Score:
        """Compute the likelihood of a continuation in nats.

        Args:
            send: Function that sends a request to the server.
            model: Name of the model on the server.
            request: Prompt and continuation.
            end_token: Text of the token that ends a reply; it is scored if the request includes the
                end.
            check_model: Function that raises an error for the name of another model.

        Raises:
            ReaderError: If the server returns no log-probabilities, or log-probabilities of another
            model.
        """
        raise ReaderError(f"The server of {model} computes no likelihoods.")


@dataclass(frozen=True)
class Vllm(Dialect):
    """vLLM (https://docs.vllm.ai): /version, /tokenize and /detokenize, and `prompt_logprobs` in
    completions.
    """

    has_version: ClassVar[bool] = True
    has_likelihoods: ClassVar[bool] = True
    continuation: ClassVar[Mapping[str, Any]] = {
        "add_generation_prompt": False,
        "continue_final_message": True,
    }

    async def read_version(self, send: SendRequest) -> str:
        """Return the version that the server reports."""
        return str((await send("/version", None))["version"])

    async def render(
        self, send: SendRequest, model: str, messages: Sequence[Message]
    ) -> str | None:
        """Return the text of the tokens that the server makes of messages."""
        ids = await self._tokenize(send, model, messages)
        return str((await send("/detokenize", {"model": model, "tokens": ids}))["prompt"])

    async def score(
        self,
        send: SendRequest,
        model: str,
        request: Likelihood,
        end_token: str,
        check_model: Callable[[str], None],
    ) -> Score:
        """Compute the likelihood of a continuation, tokenized separately as in a local reader."""
        ids = await self._tokenize(send, model, request.messages)
        target = await self._tokenize_text(send, model, request.continuation)
        if request.include_eos:
            end = await self._tokenize_text(send, model, end_token)
            if len(end) != 1:
                raise ReaderError(
                    f"reader.engine.end_token={end_token!r} is {len(end)} tokens of {model}, not "
                    "one."
                )
            target += end
        body = {
            "model": model,
            "prompt": [*ids, *target],
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": 0,
        }
        reply = await send("/v1/completions", body)
        name = str(reply.get("model") or "")
        check_model(name)
        entries = reply["choices"][0].get("prompt_logprobs") or ()
        if len(entries) != len(ids) + len(target):
            raise ReaderError(
                f"The server returned {len(entries)} log-probabilities for a prompt of "
                f"{len(ids) + len(target)} tokens. Set reader.engine.dialect to the kind of "
                "server that it is."
            )
        target_entries = [
            entry[str(token)] for entry, token in zip(entries[len(ids) :], target, strict=True)
        ]
        logprobs = [float(entry["logprob"]) for entry in target_entries]
        if min(logprobs, default=0.0) <= _REPLACED:
            raise ReaderError(
                f"The server reported a log-probability of {min(logprobs)}, which replaces one it "
                "could not compute."
            )
        tokens = (
            tuple(str(entry.get("decoded_token", "")) for entry in target_entries)
            if request.per_token
            else ()
        )
        return Score(
            math.fsum(logprobs),
            Usage(len(ids) + len(target)),
            name,
            tokens,
            tuple(logprobs) if tokens else (),
        )

    async def _tokenize_text(self, send: SendRequest, model: str, text: str) -> list[int]:
        """Return a text's tokens without the chat template. Special tokens are one token each."""
        body = {"model": model, "prompt": text, "add_special_tokens": False}
        return [int(token) for token in (await send("/tokenize", body))["tokens"]]

    async def _tokenize(
        self, send: SendRequest, model: str, messages: Sequence[Message]
    ) -> list[int]:
        """Return the tokens of messages with the chat template, up to where the reply begins."""
        fields = self.continuation if is_begun(messages) else {"add_generation_prompt": True}
        body = {"model": model, "messages": encode_messages(messages), **fields}
        return [int(token) for token in (await send("/tokenize", body))["tokens"]]


@dataclass(frozen=True)
class LlamaCpp(Dialect):
    """llama.cpp's server: /props and /apply-template, without log-probabilities of a given text."""

    has_version: ClassVar[bool] = True

    async def read_version(self, send: SendRequest) -> str:
        """Return the build that the server reports."""
        return str((await send("/props", None))["build_info"])

    async def render(
        self,
        send: SendRequest,
        model: str,  # noqa: ARG002 (it has one model)
        messages: Sequence[Message],
    ) -> str | None:
        """Return the prompt that the server makes of messages."""
        return str(
            (await send("/apply-template", {"messages": encode_messages(messages)}))["prompt"]
        )


@dataclass(frozen=True)
class TransformersServe(Dialect):
    """The server of transformers, which always decodes greedily and has no log-probabilities."""

    is_greedy_only: ClassVar[bool] = True


DIALECTS: Mapping[str, Dialect] = {
    "openai": Dialect(), "vllm": Vllm(), "llama.cpp": LlamaCpp(),
    "transformers": TransformersServe()
}  # fmt: skip


def get_dialect(name: str) -> Dialect:
    """Return a dialect by its name; raise ConfigError if there is none."""
    if name not in DIALECTS:
        raise ConfigError(
            f"reader.engine.dialect must be one of {', '.join(DIALECTS)}; received {name!r}."
        )
    return DIALECTS[name]
