"""A reader's connection to an OpenAI-compatible server. It sends requests and parses replies."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from winnow.readers.dialects import Dialect
from winnow.readers.openai_errors import RetryableError
from winnow.readers.openai_protocol import ChatProtocol, is_begun, is_loopback
from winnow.readers.pacing import Pacing
from winnow.readers.reply_limit import limit_reply
from winnow.records import T
from winnow.requests import Generate, Generation, Likelihood, Message, Score, TooLong

if TYPE_CHECKING:
    import openai

TextRequest = Generate | Likelihood


@dataclass
class OpenAIConnection:
    """A connection, which is opened on first use. It does not retry, because the reader does.

    Attributes:
        protocol: Model and address, and the conversion of requests and replies.
        pacing: Settings of the timeouts.
        dialect: Kind of the server.
        end_token: Text of the token that ends a reply, for likelihoods that include the end.
        receiving: Tasks that have sent their request and wait for the reply.
    """

    protocol: ChatProtocol
    pacing: Pacing
    dialect: Dialect
    end_token: str = ""
    receiving: set[asyncio.Task[Any]] = field(default_factory=set)

    async def call(self, group: Sequence[TextRequest]) -> Sequence[Generation | Score | TooLong]:
        """Make one call and return its results.

        Args:
            group: One likelihood, or samples of one prompt.

        Raises:
            RetryableError: If another attempt may succeed.
            ReaderError: If the failure is permanent.
        """
        if isinstance(group[0], Likelihood):
            return [await self._score(group[0])]
        samples = [request for request in group if isinstance(request, Generate)]
        body = self.protocol.build_body(samples[0], len(samples))
        if is_begun(samples[0].messages):
            body |= self.dialect.continuation
        reply = await self._send("/chat/completions", body)
        return (
            self.protocol.parse_reply(reply, samples)
            if isinstance(reply, str)
            else [reply] * len(samples)
        )

    def read_version(self) -> str | None:
        """Return the version that the server reports, or None if it has none or does not run."""
        return _run(self.dialect.read_version(self._ask_once))

    def render(self, messages: Sequence[Message]) -> str | None:
        """Return the prompt rendered by the server, or None if it does not say or does not run."""
        return _run(self.dialect.render(self._ask_once, self.protocol.model, messages))

    async def close(self) -> None:
        """Close the connection."""
        if "_client" in self.__dict__:
            await self._client.close()

    async def _score(self, request: Likelihood) -> Score | TooLong:
        """Compute a likelihood by the further endpoints of the server."""
        refusals: list[Generation | TooLong] = []

        async def ask(path: str, body: Mapping[str, Any] | None) -> Any:
            reply = await self._send(self._root + path, body or {})
            if not isinstance(reply, str):
                refusals.append(reply)
                raise LookupError
            return json.loads(reply)

        try:
            score = await self.dialect.score(
                ask, self.protocol.model, request, self.end_token, self.protocol.check_model
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            if refusals and isinstance(refusals[0], TooLong):
                return refusals[0]
            reason = self.protocol.mask_api_key(f"{type(error).__name__}: {error}")[:200]
            raise RetryableError(
                f"the reply to a likelihood does not follow the dialect ({reason})", billed=True
            ) from None
        if math.isnan(score.value):
            raise RetryableError(
                "the server reported a log-probability that is not a number", billed=True
            )
        return score

    @property
    def _root(self) -> str:
        """Address of the server without the API version."""
        return self.protocol.base_url.rstrip("/").removesuffix("/v1")

    async def _ask_once(self, path: str, body: Mapping[str, Any] | None) -> Any:
        """Send one request, or read a path, without the client of the reader's thread."""
        import httpx

        headers = {"Authorization": f"Bearer {self.protocol.read_api_key()}"}
        async with httpx.AsyncClient(
            timeout=self.pacing.connect_timeout,
            event_hooks={"response": [limit_reply]},
            trust_env=not is_loopback(self.protocol.base_url),
        ) as client:
            method = "GET" if body is None else "POST"
            response = await client.request(method, self._root + path, json=body, headers=headers)
        response.raise_for_status()
        return response.json()

    async def _send(self, path: str, body: Mapping[str, Any]) -> str | Generation | TooLong:
        """Send one HTTP request, and return the reply's text or the result that a refusal means.

        Errors are raised outside `except`, so that no error of the server, which may contain the
        API key, is chained to them.
        """
        import openai

        task = asyncio.current_task()
        assert task is not None
        self.receiving.add(task)
        failure: openai.OpenAIError | None = None
        text = ""
        try:
            async with asyncio.timeout(self.pacing.connect_timeout + self.pacing.read_timeout):
                text = await self._client.post(path, cast_to=str, body=body)
        except TimeoutError:
            failure = openai.APITimeoutError(request=None)  # type: ignore[arg-type]  # only the type of the error is used
        except openai.OpenAIError as error:
            failure = error
        finally:
            self.receiving.discard(task)
        return text if failure is None else self.protocol.convert_error(failure)

    @cached_property
    def _client(self) -> openai.AsyncOpenAI:
        """Client of the openai package. It does not retry, because the reader does."""
        import openai

        return openai.AsyncOpenAI(
            api_key=self.protocol.read_api_key(),
            base_url=self.protocol.base_url,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(
                event_hooks={"response": [limit_reply]},
                trust_env=not is_loopback(
                    self.protocol.base_url
                ),  # a proxy does not reach this machine
            ),
            timeout=openai.Timeout(self.pacing.read_timeout, connect=self.pacing.connect_timeout),
        )


def _run(question: Coroutine[Any, Any, T]) -> T | None:
    """Run a question to a server; return None if the server does not run or does not answer it."""
    import httpx

    try:
        return asyncio.run(question)
    except (httpx.HTTPError, ValueError, LookupError, TypeError):
        return None
