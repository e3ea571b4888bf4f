"""A model behind any server that speaks the OpenAI chat protocol: OpenAI, vLLM, llama.cpp, transformers serve, Ollama."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from winnow.errors import ConfigError, ReaderError
from winnow.readers.openai_engine import OpenAIEngine, as_generate
from winnow.readers.openai_protocol import RetryableError
from winnow.readers.pacing import Breaker, Gate, Pacing
from winnow.records import Generate, Generation, Request, Result, TooLong, Usage

if TYPE_CHECKING:
    import aiolimiter
    import openai
    import tenacity

Pair = tuple[Request, Result | TooLong]
_END: Sequence[Pair] = ()
"""Says, in the queue of results, that nothing more will come."""


@dataclass
class OpenAIReader(OpenAIEngine):
    """Serves Generate requests, many at once, from a thread of its own; connects on first use.

    Args (with those of OpenAIEngine):
        samples_per_call: samples of one prompt that a call asks for; 1 for servers without `n`.
        pacing: concurrency, limits a minute, timeouts, retries.

    """

    samples_per_call: int = 1
    pacing: Pacing = Pacing()
    _waiting: deque[list[Generate]] = field(default_factory=deque, repr=False)
    _done: queue.SimpleQueue[Sequence[Pair]] = field(default_factory=queue.SimpleQueue, repr=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, repr=False)
    _asking: set[asyncio.Task[None]] = field(default_factory=set, repr=False)
    """Those of the tasks that have a request on the wire."""
    _loop: asyncio.AbstractEventLoop | None = field(default=None, repr=False)
    _outstanding: int = field(default=0, repr=False)
    _stopped: Exception | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse settings under which nothing could be asked."""
        if self.samples_per_call < 1:
            raise ConfigError(f"reader.samples_per_call starts at 1; received {self.samples_per_call}.")
        super().__post_init__()
        self.gate = Gate(self.pacing.concurrency)
        self.breaker = Breaker(self.pacing)

    @property
    def capacity(self) -> int:
        """Return enough to keep all connections busy while results are taken."""
        return 4 * self.pacing.concurrency

    def submit(self, requests: Sequence[Request]) -> None:
        """Take requests; samples of one prompt go out together, up to `samples_per_call`."""
        groups: dict[Hashable, list[Generate]] = {}
        for number, request in enumerate(requests):
            asked = as_generate(request)
            several = asked.decoding.temperature > 0 and self.samples_per_call > 1
            groups.setdefault((asked.messages, asked.decoding) if several else number, []).append(asked)
        self._outstanding += len(requests)
        size = self.samples_per_call
        ready = [group[n : n + size] for group in groups.values() for n in range(0, len(group), size)]
        self._started().call_soon_threadsafe(self._take, ready)

    def collect(self) -> Sequence[Pair]:
        """Return what is finished, waiting for the first; raise what ended the work once all of it is returned."""
        if not self._outstanding:
            return []
        taken = [self._done.get()]
        while not self._done.empty():
            taken.append(self._done.get())
        found = [pair for pairs in taken for pair in pairs]
        self._outstanding -= len(found)
        if self._stopped is not None and _END in taken:
            if not found:
                self._outstanding = 0
                raise self._stopped
            self._done.put(_END)
        return found

    def close(self) -> None:
        """Drop what is waiting, close the connections and end the thread."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result(timeout=10)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self.check()
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name=f"reader {self.name}", daemon=True).start()
        return self._loop

    async def _finish(self) -> None:
        self._waiting.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if "_client" in self.__dict__:
            await self._client.close()

    def _take(self, groups: Sequence[list[Generate]]) -> None:
        self._waiting.extend(groups)
        self._dispatch()

    def _dispatch(self) -> None:
        """Start as many calls as gate and budget allow; where the budget ends and nothing is in flight, end the work."""
        while self._waiting and len(self._tasks) < int(self.gate.limit) and self._stopped is None:
            group = self._waiting[0]
            most = self.protocol.most(group[0], len(group))
            if not self.spending.set_aside(most):
                if not self._tasks:
                    self._stopped = self.spending.exhausted()
                break
            self._waiting.popleft()
            task = asyncio.get_running_loop().create_task(self._meet(group, most))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
        if self._stopped is not None and not self._tasks:
            self._done.put(_END)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._stopped is None:
            self._stopped = error if isinstance(error, Exception) else ReaderError(repr(error))
            for other in self._tasks - self._asking:  # those that wait for a pause or a retry; an answer on its way is paid
                other.cancel()
        self._dispatch()

    async def _meet(self, group: list[Generate], most: Usage) -> None:
        """Carry out one call with its retries and hand on its results."""
        taken = Usage()
        try:
            results = await self._persist(group)
            taken = sum((r.usage for r in results if isinstance(r, Generation)), Usage())
            self._done.put(list(zip(group, results, strict=True)))
        except RetryableError as error:
            failure = ReaderError(
                f"A call failed again and again; the last failure: {error}. What was answered is in the ledger; run again "
                "to go on."
            )
        else:
            return
        finally:
            self.spending.settle(most, taken)
        raise failure

    async def _persist(self, group: list[Generate]) -> Sequence[Generation | TooLong]:
        """Try until there is an outcome: `attempts` failures, and as many throttled attempts as `patience` allows.

        tenacity comes in only where a first attempt has failed: it takes as long as the rest of our work on a call.
        """
        import tenacity

        try:
            return await self._call(group)
        except RetryableError as error:
            first = error
        growing = tenacity.wait_random_exponential(multiplier=self.pacing.first_wait, max=self.pacing.longest_wait)
        failures = int(not first.throttled)

        def latest(state: tenacity.RetryCallState) -> RetryableError:
            error = state.outcome.exception() if state.outcome else None
            return error if isinstance(error, RetryableError) else first

        def wait(state: tenacity.RetryCallState) -> float:
            after = latest(state).after
            return growing(state) if after is None else after + growing(state) / 10

        def stop(state: tenacity.RetryCallState) -> bool:
            nonlocal failures
            failures += state.outcome is not None and not latest(state).throttled
            spent = (state.seconds_since_start or 0.0) >= self.pacing.patience
            return self._stopped is not None or failures >= self.pacing.attempts or (latest(state).throttled and spent)

        retrying = tenacity.AsyncRetrying(
            stop=stop, wait=wait, retry=tenacity.retry_if_exception_type(RetryableError), reraise=True
        )
        beginning = tenacity.RetryCallState(retrying, None, (), {})
        if stop(beginning):
            raise first
        await asyncio.sleep(wait(beginning))
        return await retrying(self._call, group)

    async def _call(self, group: list[Generate]) -> Sequence[Generation | TooLong]:
        """Make one attempt; a refusal may be an outcome. Whatever the server says shows the breaker that it is there."""
        await self._paced(group)
        try:
            found = await self._post(group)
        except RetryableError as error:
            if error.billed:
                self.spending.charge(self.protocol.most(group[0], len(group)))
            if error.throttled:
                self.gate.narrow()
                self.breaker.answered()
            else:
                self.breaker.failed(str(error))
            raise
        except BaseException:
            self.breaker.answered()
            raise
        self.breaker.answered()
        self.gate.widen()
        return found

    async def _post(self, group: list[Generate]) -> Sequence[Generation | TooLong]:
        """Send one body and read the reply. Failures are raised outside `except`, lest the server's words come along."""
        import openai

        body = self.protocol.body(group[0], len(group))
        task = asyncio.current_task()
        assert task is not None
        self._asking.add(task)
        failure: openai.OpenAIError | None = None
        text = ""
        try:
            async with asyncio.timeout(self.pacing.connect_seconds + self.pacing.read_seconds):
                text = await self._client.post("/chat/completions", cast_to=str, body=body)
        except TimeoutError:
            failure = openai.APITimeoutError(request=None)  # type: ignore[arg-type]  # it is only told by its kind
        except openai.OpenAIError as error:
            failure = error
        finally:
            self._asking.discard(task)
        if failure is not None:
            return [self.protocol.outcome(failure)] * len(group)
        return self.protocol.generations(text, group)

    async def _paced(self, group: list[Generate]) -> None:
        await self.breaker.passed()
        requests, tokens = self._limiters
        if requests is not None:
            await requests.acquire()
        if tokens is not None:
            most = self.protocol.most(group[0], len(group))
            await tokens.acquire(min(most.tokens_in + most.tokens_out, tokens.max_rate))

    @cached_property
    def _limiters(self) -> tuple[aiolimiter.AsyncLimiter | None, aiolimiter.AsyncLimiter | None]:
        import aiolimiter

        rates = (self.pacing.requests_per_minute, self.pacing.tokens_per_minute)
        requests, tokens = (None if rate is None else aiolimiter.AsyncLimiter(rate, 60) for rate in rates)
        return requests, tokens

    @cached_property
    def _client(self) -> openai.AsyncOpenAI:
        import openai

        return openai.AsyncOpenAI(
            api_key=self.protocol.key(),
            base_url=self.base_url,
            max_retries=0,
            timeout=openai.Timeout(self.pacing.read_seconds, connect=self.pacing.connect_seconds),
        )
