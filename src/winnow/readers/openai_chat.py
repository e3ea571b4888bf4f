"""A reader for servers with an OpenAI-compatible chat API: OpenAI, vLLM, llama.cpp, transformers serve, Ollama."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from winnow.errors import CallRefusedError, ConfigError, ReaderError
from winnow.readers.openai_engine import OpenAIEngine, as_generate
from winnow.readers.openai_protocol import RetryableError
from winnow.readers.pacing import Breaker, Gate, Pacing
from winnow.readers.reply_limit import limit_reply
from winnow.records import Failed, Generate, Generation, Request, Result, TooLong, Usage

if TYPE_CHECKING:
    import aiolimiter
    import openai
    import tenacity

_log = logging.getLogger(__name__)
Pair = tuple[Request, Result | TooLong]
_ANNOUNCED_SECONDS = 30.0
"""Waits that a server asks for are announced if they are longer."""
_END: Sequence[Pair] = ()
"""Sentinel in the queue of results: no more results follow."""


@dataclass
class OpenAIReader(OpenAIEngine):
    """Serves Generate requests concurrently from its own thread. It connects on first use.

    Args (in addition to those of OpenAIEngine):
        samples_per_call: Maximum number of samples of one prompt per call; 1 for servers that do not support `n`.
        pacing: Concurrency, limits per minute, timeouts and retries.

    """

    revision: ClassVar[int] = 1
    speed_only: ClassVar[Mapping[str, str]] = {
        "samples_per_call": "the number of a sample does not depend on its call",
        "pacing": "how fast the server is called",
    }

    samples_per_call: int = 1
    pacing: Pacing = Pacing()
    _waiting: deque[list[Generate]] = field(default_factory=deque, repr=False)
    _finished: queue.SimpleQueue[Sequence[Pair]] = field(default_factory=queue.SimpleQueue, repr=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, repr=False)
    _receiving: set[asyncio.Task[None]] = field(default_factory=set, repr=False)
    """Tasks that wait for a reply from the server."""
    _loop: asyncio.AbstractEventLoop | None = field(default=None, repr=False)
    _outstanding: int = field(default=0, repr=False)
    _error: Exception | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raise ConfigError for settings under which no request could be sent."""
        if self.samples_per_call < 1:
            raise ConfigError(f"reader.samples_per_call starts at 1; received {self.samples_per_call}.")
        super().__post_init__()
        self.gate = Gate(self.pacing.max_concurrency)
        self.breaker = Breaker(self.pacing)

    @property
    def capacity(self) -> int:
        """Return a number of requests that keeps all connections busy while results are stored."""
        return 4 * self.pacing.max_concurrency

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests. Up to `samples_per_call` samples of one prompt share a call."""
        groups: dict[Hashable, list[Generate]] = {}
        for index, request in enumerate(requests):
            generate = as_generate(request)
            may_share = generate.decoding.temperature > 0 and self.samples_per_call > 1
            group_key = (generate.messages, generate.decoding) if may_share else index
            groups.setdefault(group_key, []).append(generate)
        self._outstanding += len(requests)
        size = self.samples_per_call
        calls = [group[start : start + size] for group in groups.values() for start in range(0, len(group), size)]
        self._running_loop().call_soon_threadsafe(self._enqueue, calls)

    def collect(self, timeout: float) -> Sequence[Pair]:
        """Return all finished requests, after waiting for the first.

        An error that ended the work is raised once all results have been returned.
        """
        if not self._outstanding:
            return []
        try:
            groups = [self._finished.get(timeout=timeout) if timeout else self._finished.get_nowait()]
        except queue.Empty:
            return []
        while not self._finished.empty():
            groups.append(self._finished.get())
        results = [pair for group in groups for pair in group]
        self._outstanding -= len(results)
        if self._error is not None and _END in groups:
            if not results:
                self._outstanding = 0
                raise self._error
            self._finished.put(_END)
        return results

    def close(self) -> None:
        """Drop queued requests, close the connections and stop the thread."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop).result(timeout=10)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self.check()
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name=f"reader {self.name}", daemon=True).start()
        return self._loop

    async def _shut_down(self) -> None:
        self._waiting.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if "_client" in self.__dict__:
            await self._client.close()

    def _enqueue(self, groups: Sequence[list[Generate]]) -> None:
        self._waiting.extend(groups)
        self._dispatch()

    def _dispatch(self) -> None:
        """Start as many calls as gate and budget allow. End the work if the budget is exhausted and no call is in flight."""
        while self._waiting and len(self._tasks) < int(self.gate.limit) and self._error is None:
            group = self._waiting[0]
            max_usage = self.protocol.max_usage(group[0], len(group))
            if not self.spending.reserve(max_usage):
                if not self._tasks:
                    self._error = self.spending.exhausted()
                break
            self._waiting.popleft()
            task = asyncio.get_running_loop().create_task(self._run_call(group, max_usage))
            self._tasks.add(task)
            task.add_done_callback(self._task_ended)
        if self._error is not None and not self._tasks:
            self._finished.put(_END)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._error is None:
            self._error = error if isinstance(error, Exception) else ReaderError(repr(error))
            for waiting_task in self._tasks - self._receiving:  # the replies to the other tasks are already paid for
                waiting_task.cancel()
        self._dispatch()

    async def _run_call(self, group: list[Generate], max_usage: Usage) -> None:
        """Make one call with its retries, and queue the results."""
        actual = Usage()
        try:
            results = await self._call_with_retries(group)
            actual = sum((r.usage for r in results if isinstance(r, Generation)), Usage())
            self._finished.put(list(zip(group, results, strict=True)))
        except RetryableError as error:
            failure: ReaderError = ReaderError(
                f"A call failed repeatedly; the last failure: {error}. Finished calls are in the ledger; run again to "
                "continue."
            )
        except CallRefusedError as error:
            failure = error
        else:
            return
        finally:
            self.spending.commit(max_usage, actual)
        if not isinstance(failure, CallRefusedError) or not all(request.may_fail for request in group):
            raise failure
        self._finished.put([(request, Failed(str(failure))) for request in group])

    async def _call_with_retries(self, group: list[Generate]) -> Sequence[Generation | TooLong]:
        """Make a call and retry it, up to `max_attempts` failures and, if it is throttled, for `patience` seconds.

        tenacity is used only after a first failure, because it takes as long as the rest of our work on a call.
        """
        import tenacity

        try:
            return await self._call(group)
        except RetryableError as error:
            first_failure = error
        backoff = tenacity.wait_random_exponential(multiplier=self.pacing.initial_wait, max=self.pacing.max_wait)
        failures = int(not first_failure.throttled)

        def latest_failure(state: tenacity.RetryCallState) -> RetryableError:
            error = state.outcome.exception() if state.outcome else None
            return error if isinstance(error, RetryableError) else first_failure

        def wait(state: tenacity.RetryCallState) -> float:
            retry_after = latest_failure(state).after
            return backoff(state) if retry_after is None else retry_after + backoff(state) / 10

        def stop(state: tenacity.RetryCallState) -> bool:
            nonlocal failures
            throttled = latest_failure(state).throttled
            failures += state.outcome is not None and not throttled
            out_of_patience = (state.seconds_since_start or 0.0) >= self.pacing.patience
            return self._error is not None or failures >= self.pacing.max_attempts or (throttled and out_of_patience)

        retrying = tenacity.AsyncRetrying(
            stop=stop, wait=wait, retry=tenacity.retry_if_exception_type(RetryableError), reraise=True
        )
        initial_state = tenacity.RetryCallState(retrying, None, (), {})
        if stop(initial_state):
            raise first_failure
        await asyncio.sleep(wait(initial_state))
        return await retrying(self._call, group)

    async def _call(self, group: list[Generate]) -> Sequence[Generation | TooLong]:
        """Make one attempt and report it to gate and breaker. A refusal such as TooLong is an outcome."""
        await self._await_turn(group)
        try:
            outcomes = await self._post(group)
        except RetryableError as error:
            if error.billed:
                self.spending.charge(self.protocol.max_usage(group[0], len(group)))
            self._check_patience(error)
            if error.throttled:
                self.gate.narrow()
                self.breaker.record_reply()
            else:
                if not self.breaker.failures:
                    _log.warning("%s fails (%s); calls to it are retried.", self.base_url, error)
                self.breaker.record_failure(str(error))
            raise
        except BaseException:
            self.breaker.record_reply()
            raise
        self.breaker.record_reply()
        self.gate.widen()
        return outcomes

    def _check_patience(self, error: RetryableError) -> None:
        """Announce a long wait that the server asks for, and refuse one that is longer than the patience.

        Raises:
            ReaderError: If the wait is longer than `pacing.patience`.

        """
        wait = error.after or 0.0
        if wait > self.pacing.patience:
            raise ReaderError(
                f"{self.base_url} asks to wait {wait:.0f} s before the next call ({error}), which is longer than "
                f"reader.engine.pacing.patience={self.pacing.patience:.0f}. Finished calls are in the ledger; run again later."
            )
        if wait > _ANNOUNCED_SECONDS:
            _log.warning("%s asks to wait %.0f s before the next call (%s).", self.base_url, wait, error)

    async def _post(self, group: list[Generate]) -> Sequence[Generation | TooLong]:
        """Send one request and parse the reply. Failures are raised outside `except`, so that they chain no server text."""
        import openai

        body = self.protocol.body(group[0], len(group))
        task = asyncio.current_task()
        assert task is not None
        self._receiving.add(task)
        failure: openai.OpenAIError | None = None
        text = ""
        try:
            async with asyncio.timeout(self.pacing.connect_timeout + self.pacing.read_timeout):
                text = await self._client.post("/chat/completions", cast_to=str, body=body)
        except TimeoutError:
            failure = openai.APITimeoutError(request=None)  # type: ignore[arg-type]  # only its type is inspected
        except openai.OpenAIError as error:
            failure = error
        finally:
            self._receiving.discard(task)
        if failure is not None:
            return [self.protocol.outcome(failure)] * len(group)
        return self.protocol.generations(text, group)

    async def _await_turn(self, group: list[Generate]) -> None:
        """Wait for the breaker and the limits per minute."""
        await self.breaker.wait()
        request_limiter, token_limiter = self._limiters
        if request_limiter is not None:
            await request_limiter.acquire()
        if token_limiter is not None:
            max_usage = self.protocol.max_usage(group[0], len(group))
            await token_limiter.acquire(min(max_usage.tokens_in + max_usage.tokens_out, token_limiter.max_rate))

    @cached_property
    def _limiters(self) -> tuple[aiolimiter.AsyncLimiter | None, aiolimiter.AsyncLimiter | None]:
        import aiolimiter

        rates = (self.pacing.requests_per_minute, self.pacing.tokens_per_minute)
        request_limiter, token_limiter = (None if rate is None else aiolimiter.AsyncLimiter(rate, 60) for rate in rates)
        return request_limiter, token_limiter

    @cached_property
    def _client(self) -> openai.AsyncOpenAI:
        import openai

        return openai.AsyncOpenAI(
            api_key=self.protocol.key(),
            base_url=self.base_url,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(event_hooks={"response": [limit_reply]}),
            timeout=openai.Timeout(self.pacing.read_timeout, connect=self.pacing.connect_timeout),
        )
