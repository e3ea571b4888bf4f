"""A reader for OpenAI-compatible chat servers such as vLLM, llama.cpp, transformers and Ollama."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from annotated_types import Ge

from winnow.errors import (
    CallRefusedError,
    ReaderError,
    ServerUnavailableError,
    StoppedError,
)
from winnow.identity.markers import SpeedOnly
from winnow.modeling.loading import compute_weights_digest
from winnow.readers.dialects import get_dialect
from winnow.readers.openai_connection import OpenAIConnection, TextRequest
from winnow.readers.openai_engine import OpenAIEngine
from winnow.readers.openai_errors import RetryableError
from winnow.readers.paced_calls import PacedCalls
from winnow.readers.pacing import Pacing
from winnow.readers.server_preparation import ServerPreparation
from winnow.readers.server_process import ServerProcess
from winnow.readers.token_estimates import estimate_max_usage
from winnow.requests import (
    Failed,
    Generate,
    Generation,
    Likelihood,
    Request,
    Result,
    Score,
    TooLong,
    Usage,
)

RequestResult = tuple[Request, Result | TooLong]
_STARTED_ADDRESS = "http://127.0.0.1/v1"
"""Address of a server that the run starts, until its port is known."""
_END_OF_RESULTS: Sequence[RequestResult] = ()
"""Marker in the queue of results. It means that no further results follow."""


@dataclass
class OpenAIReader(OpenAIEngine):
    """A reader that sends requests concurrently from a thread of its own. It connects on first use.

    Args (in addition to OpenAIEngine's):
        samples_per_call: Maximum number of samples of one prompt that a call requests. It must be 1
            for servers that do not support the field `n`.
        pacing: Settings of the concurrency, rate limits, timeouts and retries.
        dialect: Kind of the server: "openai" (the chat protocol only), "vllm" or "llama.cpp"; see
            `winnow.readers.dialects`.
        version: Version of the server, which is part of the identity. A server that reports another
            one is an error; "" accepts any.
        end_token: Text of the token that ends a reply, for likelihoods that include the end.
        start: How to start the server, or None if it runs already. A started server has an address
            of its own.
    """

    revision: ClassVar[int] = 1
    reuses_prefixes: ClassVar[bool] = True
    """Whether a prefix shared by consecutive prompts is read only once, as by most servers."""

    samples_per_call: Annotated[
        int, Ge(1), SpeedOnly("the number of a sample does not depend on its call")
    ] = 1
    pacing: Annotated[
        Pacing, SpeedOnly("it decides how fast the server is called but does not affect replies")
    ] = Pacing()
    dialect: Annotated[str, SpeedOnly("it says what the server can do besides replying")] = "openai"
    version: str = ""
    end_token: str = ""
    start: ServerProcess | None = None
    _waiting: deque[list[TextRequest]] = field(default_factory=deque, repr=False)
    _finished: queue.SimpleQueue[Sequence[RequestResult]] = field(
        default_factory=queue.SimpleQueue, repr=False
    )
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, repr=False)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, repr=False)
    _outstanding: int = field(default=0, repr=False)
    """Number of submitted requests whose results have not been returned."""
    _error: Exception | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.start is not None:
            self.base_url = _STARTED_ADDRESS
        super().__post_init__()
        self.protocol = replace(self.protocol, model=self.model)
        self._connection = OpenAIConnection(
            self.protocol, self.pacing, get_dialect(self.dialect), self.end_token
        )
        self._preparation = ServerPreparation(self._connection, self.start, self.path, self.version)
        self._calls = PacedCalls(
            self._connection,
            self._preparation,
            self.pacing,
            lambda: self.spending,
            lambda: self._error is not None,
        )

    def check_reachable(self) -> None:
        """Raise ServerUnavailableError if the server does not reply, unless the run starts it."""
        if self.start is None:
            super().check_reachable()

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with the name of the server; a server that the run starts is
        identified by how it is started.
        """
        return (
            {**settings, "server": settings.get("server") or ""}
            if settings.get("start")
            else super().resolve_settings(settings)
        )

    @property
    def model(self) -> str:
        """Return the model's name on the server; a started server has it from its command."""
        return self.path if self.start is None else self.start.get_model_name(self.path)

    @property
    def identity(self) -> str:
        """Return server, version, model and extra fields; for a server that the run starts, how,
        and the model's digest.
        """
        identity = super().identity
        if self.start is not None:
            server = f"{self.server}/{self.start.identity}" if self.server else self.start.identity
            _, _, model = identity.partition("#")
            identity = f"{server}#{compute_weights_digest(self.path)}/{model}"
        version = f"/{self.version}" if self.version else ""
        end_token = f"/{self.end_token}" if self.end_token else ""
        return f"{identity}{version}{end_token}"

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the kinds of requests that the server serves; only some compute likelihoods."""
        return (Generate, Likelihood) if self._connection.dialect.has_likelihoods else (Generate,)

    @property
    def continues_replies(self) -> bool:
        """Return whether the server continues a reply that the prompt begins."""
        return bool(self._connection.dialect.continuation)

    def explain_refusal(self, request: Request) -> str | None:
        """Return a reason if a request needs named tokens or an unset end token, else None."""
        if isinstance(request, Likelihood) and request.include_eos and not self.end_token:
            return (
                "set reader.engine.end_token to the text of the token that ends a reply, such as "
                "'<|im_end|>'."
            )
        if isinstance(request, Likelihood) and self.extra:
            return (
                "likelihoods of a server do not take reader.engine.extra; received "
                f"{dict(self.extra)}."
            )
        decoding = request.decoding if isinstance(request, Generate) else None
        if (
            self._connection.dialect.is_greedy_only
            and decoding
            and (decoding.temperature > 0 or decoding.logprobs)
        ):
            return (
                f"servers of the dialect {self.dialect} ignore temperatures and log-probabilities. "
                "Use another server."
            )
        return super().explain_refusal(request)

    def render_prompt(self, request: Generate) -> str | None:
        """Return the prompt rendered by the server, or None if it does not run or does not say."""
        return (
            None
            if self.start is not None or self.extra
            else self._connection.render(request.messages)
        )

    @property
    def capacity(self) -> int:
        """Return the number of requests that keep all connections busy while results are stored."""
        return 4 * self.pacing.max_concurrency

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests. Up to `samples_per_call` samples of one prompt share a call."""
        groups: dict[Hashable, list[TextRequest]] = {}
        for index, request in enumerate(requests):
            text_request = self.require_served(request)
            group_key: Hashable = index
            if (
                isinstance(text_request, Generate)
                and text_request.decoding.temperature > 0
                and self.samples_per_call > 1
            ):
                group_key = (text_request.messages, text_request.decoding, text_request.tools)
            groups.setdefault(group_key, []).append(text_request)
        self._outstanding += len(requests)
        samples = self.samples_per_call
        calls = [
            group[start : start + samples]
            for group in groups.values()
            for start in range(0, len(group), samples)
        ]
        self._ensure_loop().call_soon_threadsafe(self._enqueue, calls)

    def collect(self, timeout: float) -> Sequence[RequestResult]:
        """Wait up to `timeout` seconds for a finished request, and return all that are finished.

        An error that stopped the reader is raised once all results have been returned.
        """
        if not self._outstanding:
            return []
        try:
            result_groups = [
                self._finished.get(timeout=timeout) if timeout else self._finished.get_nowait()
            ]
        except queue.Empty:
            return []
        while not self._finished.empty():
            result_groups.append(self._finished.get())
        results = [request_result for group in result_groups for request_result in group]
        self._outstanding -= len(results)
        if self._error is not None and _END_OF_RESULTS in result_groups:
            if not results:
                self._outstanding = 0
                raise self._preparation.add_log(self._error)
            self._finished.put(_END_OF_RESULTS)  # the next call raises the error
        return results

    def stop(self) -> None:
        """Start no further call, and retry none; those that were sent are awaited by `collect`."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end, StoppedError(f"{self.name} was stopped."))

    def close(self) -> None:
        """Discard queued requests, cancel running calls, close connections and stop the thread."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop).result(timeout=10)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None
            self._preparation.release()

    def _ensure_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the reader's thread, and start the thread on first use."""
        if self._loop is None:
            self.check()
            self._preparation.begin()
            self._loop = asyncio.new_event_loop()
            threading.Thread(
                target=self._loop.run_forever, name=f"reader {self.name}", daemon=True
            ).start()
        return self._loop

    async def _shut_down(self) -> None:
        """Cancel all calls and close the connections. This runs in the reader's thread."""
        self._waiting.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connection.close()

    def _enqueue(self, groups: Sequence[list[TextRequest]]) -> None:
        """Queue groups of requests, one per call, and start calls, in the reader's thread."""
        self._waiting.extend(groups)
        self._dispatch()

    def _dispatch(self) -> None:
        """Start as many calls as the concurrency limit and the budget allow.

        The reader stops if the budget is exhausted and no call is in flight.
        """
        while (
            self._waiting
            and len(self._tasks) < int(self._calls.concurrency.limit)
            and self._error is None
        ):
            group = self._waiting[0]
            max_usage = estimate_max_usage(group[0], len(group))
            if not self.spending.reserve(max_usage):
                if not self._tasks:
                    self._error = self.spending.build_budget_error()
                break
            self._waiting.popleft()
            task = asyncio.get_running_loop().create_task(self._run_call(group, max_usage))
            self._tasks.add(task)
            task.add_done_callback(self._handle_task_end)
        if self._error is not None and not self._tasks:
            self._finished.put(_END_OF_RESULTS)

    def _handle_task_end(self, task: asyncio.Task[None]) -> None:
        """Start further calls after a task ended, or none if it failed."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None:
            self._dispatch()
        else:
            self._end(error if isinstance(error, Exception) else ReaderError(repr(error)))

    def _end(self, error: Exception) -> None:
        """Keep the first error, and cancel tasks that sent no request. Other calls are paid for."""
        if self._error is None:
            self._error = error
            for unsent_task in self._tasks - self._connection.receiving:
                unsent_task.cancel()
        self._dispatch()

    async def _run_call(self, group: list[TextRequest], max_usage: Usage) -> None:
        """Make one call with its retries, queue the results and commit the usage.

        Args:
            group: Requests of the call: samples of one prompt.
            max_usage: Usage that was reserved for the call.

        Raises:
            ReaderError: If the call failed, unless it was refused and all its requests may fail.
        """
        actual = Usage()
        try:
            results = await self._calls.run(group)
            actual = sum(
                (result.usage for result in results if isinstance(result, Generation | Score)),
                Usage(),
            )
            self._finished.put(list(zip(group, results, strict=True)))
        except RetryableError as error:
            failure: ReaderError = ServerUnavailableError(
                f"A call to {self._calls.address} failed repeatedly. The last failure was: "
                f"{error}. Finished calls are in the ledger. Run the command again to continue."
            )
        except CallRefusedError as error:
            failure = error
        else:
            return
        finally:
            self.spending.commit(max_usage, actual)
        may_fail = all(isinstance(request, Generate) and request.may_fail for request in group)
        if not isinstance(failure, CallRefusedError) or not may_fail:
            raise failure
        self._finished.put([(request, Failed(str(failure))) for request in group])
