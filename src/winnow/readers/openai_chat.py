"""A reader for servers with an OpenAI-compatible chat API, such as OpenAI, vLLM, llama.cpp,
transformers serve and Ollama.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from winnow.errors import CallRefusedError, ConfigError, ReaderError, ServerUnavailableError
from winnow.identity.markers import SpeedOnly
from winnow.modeling.loading import compute_weights_digest
from winnow.readers.dialects import get_dialect
from winnow.readers.openai_connection import OpenAIConnection, TextRequest
from winnow.readers.openai_engine import OpenAIEngine
from winnow.readers.openai_protocol import RetryableError
from winnow.readers.pacing import CircuitBreaker, ConcurrencyLimit, Pacing
from winnow.readers.server_preparation import ServerPreparation
from winnow.readers.server_process import ServerProcess
from winnow.readers.token_estimates import estimate_max_usage
from winnow.records import (
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

if TYPE_CHECKING:
    import aiolimiter
    import tenacity

_log = logging.getLogger(__name__)
RequestResult = tuple[Request, Result | TooLong]
_LONG_WAIT_SECONDS = 30.0
"""A wait that a server asks for is logged if it is longer than this."""
_STARTED_ADDRESS = "http://127.0.0.1/v1"
"""Address of a server that the run starts, until its port is known."""
_END_OF_RESULTS: Sequence[RequestResult] = ()
"""Marker in the queue of results. It means that no further results follow."""


@dataclass
class OpenAIReader(OpenAIEngine):
    """A reader that sends requests concurrently from a thread of its own. It connects on first use.

    Args (in addition to those of OpenAIEngine):
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
    """Whether the engine reads the beginning that prompts share once if they follow each other, as
    most servers do.
    """

    samples_per_call: Annotated[
        int, SpeedOnly("the number of a sample does not depend on its call")
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
        """Raise ConfigError for settings with which no request could be sent."""
        if self.samples_per_call < 1:
            raise ConfigError(
                "reader.engine.samples_per_call must be at least 1; received "
                f"{self.samples_per_call}."
            )
        if self.start is not None:
            self.base_url = _STARTED_ADDRESS
        super().__post_init__()
        self.protocol = replace(self.protocol, model=self.model)
        self._connection = OpenAIConnection(
            self.protocol, self.pacing, get_dialect(self.dialect), self.end_token
        )
        self._preparation = ServerPreparation(self._connection, self.start, self.path, self.version)
        self.concurrency = ConcurrencyLimit(self.pacing.max_concurrency)
        self.breaker = CircuitBreaker(self.pacing)

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
        """Return the name of the model on the server; a server that the run starts has it from its
        command.
        """
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
        """Return the kinds of requests that the server serves; only some compute the likelihood of
        a given text.
        """
        return (Generate, Likelihood) if self._connection.dialect.has_likelihoods else (Generate,)

    @property
    def continues_replies(self) -> bool:
        """Return whether the server continues a reply that the prompt begins."""
        return bool(self._connection.dialect.continuation)

    def explain_refusal(self, request: Request) -> str | None:
        """Return the reason if the request needs named tokens or an end token that is not set;
        return None otherwise.
        """
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
        """Return the prompt as the server renders it by its chat template, or None if it does not
        run or does not say.
        """
        return (
            None
            if self.start is not None or self.extra
            else self._connection.render(request.messages)
        )

    @property
    def capacity(self) -> int:
        """Return the number of requests that keeps all connections busy while results
        are stored.
        """
        return 4 * self.pacing.max_concurrency

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests. Up to `samples_per_call` samples of one prompt share a call."""
        groups: dict[Hashable, list[TextRequest]] = {}
        for index, request in enumerate(requests):
            served = self.require_served(request)
            group_key: Hashable = index
            if (
                isinstance(served, Generate)
                and served.decoding.temperature > 0
                and self.samples_per_call > 1
            ):
                group_key = (served.messages, served.decoding, served.tools)
            groups.setdefault(group_key, []).append(served)
        self._outstanding += len(requests)
        samples = self.samples_per_call
        calls = [
            group[start : start + samples]
            for group in groups.values()
            for start in range(0, len(group), samples)
        ]
        self._ensure_loop().call_soon_threadsafe(self._enqueue, calls)

    def collect(self, timeout: float) -> Sequence[RequestResult]:
        """Wait up to `timeout` seconds for the first finished request, and return all that are
        finished.

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

    def close(self) -> None:
        """Discard queued requests, cancel running calls, close the connections and stop
        the thread.
        """
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
        """Cancel all calls and close the connections. This coroutine runs in the
        reader's thread.
        """
        self._waiting.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connection.close()

    def _enqueue(self, groups: Sequence[list[TextRequest]]) -> None:
        """Queue groups of requests, each for one call, and start calls. This method runs in the
        reader's thread.
        """
        self._waiting.extend(groups)
        self._dispatch()

    def _dispatch(self) -> None:
        """Start as many calls as the concurrency limit and the budget allow.

        The reader stops if the budget is exhausted and no call is in flight.
        """
        while (
            self._waiting and len(self._tasks) < int(self.concurrency.limit) and self._error is None
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
        """Start further calls after a task ended. If it failed, keep its error and cancel the tasks
        that sent no request.
        """
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._error is None:
            self._error = error if isinstance(error, Exception) else ReaderError(repr(error))
            for unsent_task in (
                self._tasks - self._connection.receiving
            ):  # the other calls have been sent and are paid for
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
            results = await self._call_with_retries(group)
            actual = sum(
                (result.usage for result in results if isinstance(result, Generation | Score)),
                Usage(),
            )
            self._finished.put(list(zip(group, results, strict=True)))
        except RetryableError as error:
            failure: ReaderError = ServerUnavailableError(
                f"A call to {self._address} failed repeatedly. The last failure was: {error}. "
                "Finished calls are in the ledger. Run the command again to continue."
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

    async def _call_with_retries(
        self, group: list[TextRequest]
    ) -> Sequence[Generation | Score | TooLong]:
        """Make a call, and retry it until `max_attempts` attempts failed or it was throttled for
        `patience` seconds.

        tenacity is used only after a first failure, because it takes as long as all other local
        work on a call.
        """
        import tenacity

        await self._preparation.wait()
        try:
            return await self._call(group)
        except RetryableError as error:
            first_failure = error
        backoff = tenacity.wait_random_exponential(
            multiplier=self.pacing.initial_wait, max=self.pacing.max_wait
        )
        failures = int(not first_failure.throttled)

        def latest_failure(state: tenacity.RetryCallState) -> RetryableError:
            error = state.outcome.exception() if state.outcome else None
            return error if isinstance(error, RetryableError) else first_failure

        def wait(state: tenacity.RetryCallState) -> float:
            requested_wait = latest_failure(state).after
            return (
                backoff(state) if requested_wait is None else requested_wait + backoff(state) / 10
            )

        def stop(state: tenacity.RetryCallState) -> bool:
            nonlocal failures
            throttled = latest_failure(state).throttled
            failures += state.outcome is not None and not throttled
            is_out_of_patience = (state.seconds_since_start or 0.0) >= self.pacing.patience
            return (
                self._error is not None
                or failures >= self.pacing.max_attempts
                or (throttled and is_out_of_patience)
            )

        retrying = tenacity.AsyncRetrying(
            stop=stop,
            wait=wait,
            retry=tenacity.retry_if_exception_type(RetryableError),
            reraise=True,
        )
        initial_state = tenacity.RetryCallState(retrying, None, (), {})
        if stop(initial_state):
            raise first_failure
        await asyncio.sleep(wait(initial_state))
        return await retrying(self._call, group)

    async def _call(self, group: list[TextRequest]) -> Sequence[Generation | Score | TooLong]:
        """Make one attempt, and report its success or failure to the concurrency limit and the
        circuit breaker.
        """
        await self._wait_for_limits(group)
        try:
            results = await self._connection.call(group)
        except RetryableError as error:
            if error.billed:
                self.spending.charge_lost_call(estimate_max_usage(group[0], len(group)))
            self._check_requested_wait(error)
            if error.throttled:
                self.concurrency.halve_limit()
                self.breaker.record_reply()
            else:
                if not self.breaker.failures:
                    _log.warning(
                        "A call to %s failed (%s). Failed calls are retried.", self._address, error
                    )
                self.breaker.record_failure(str(error))
            raise
        except BaseException:
            self.breaker.record_reply()
            raise
        self.breaker.record_reply()
        self.concurrency.raise_limit()
        return results

    def _check_requested_wait(self, error: RetryableError) -> None:
        """Log a long wait that the server asks for; raise an error if it is longer than
        `pacing.patience`.

        Raises:
            ReaderError: If the wait is longer than `pacing.patience` seconds.

        """
        wait_seconds = error.after or 0.0
        if wait_seconds > self.pacing.patience:
            raise ServerUnavailableError(
                f"{self._address} asks to wait {wait_seconds:.0f} s before the next call "
                f"({error}), which is longer than "
                f"reader.engine.pacing.patience={self.pacing.patience:.0f}. Finished calls are in "
                "the ledger. Run the command again later."
            )
        if wait_seconds > _LONG_WAIT_SECONDS:
            _log.warning(
                "%s asks to wait %.0f s before the next call (%s).",
                self._address,
                wait_seconds,
                error,
            )

    @property
    def _address(self) -> str:
        """Address of the server, which a started one has once it runs."""
        return self._connection.protocol.base_url

    async def _wait_for_limits(self, group: list[TextRequest]) -> None:
        """Wait until the circuit breaker and the limits per minute allow a call."""
        await self.breaker.wait()
        request_limiter, token_limiter = self._limiters
        if request_limiter is not None:
            await request_limiter.acquire()
        if token_limiter is not None:
            max_usage = estimate_max_usage(group[0], len(group))
            max_tokens = max_usage.tokens_in + max_usage.tokens_out
            await token_limiter.acquire(min(max_tokens, token_limiter.max_rate))

    @cached_property
    def _limiters(self) -> tuple[aiolimiter.AsyncLimiter | None, aiolimiter.AsyncLimiter | None]:
        """Limiters of requests and of tokens per minute; None where there is no limit."""
        import aiolimiter

        rates = (self.pacing.requests_per_minute, self.pacing.tokens_per_minute)
        request_limiter, token_limiter = (
            None if rate is None else aiolimiter.AsyncLimiter(rate, 60) for rate in rates
        )
        return request_limiter, token_limiter
