"""The driver, which runs thousands of plans at once and has each distinct request served once.

A plan is a generator that yields model requests and receives their results (see
`winnow.requests.Plan`). The driver looks each request up in the ledger, the store of finished
calls, and merges it with an equal request that is in flight. It submits the other requests to the
engine of their kind and role, and commits each result before a plan receives it. Processes share
work through claims: a process makes only the calls that it has reserved in the ledger. The number
of plans in memory is limited. No engine waits for another one, because servers are polled while
local models compute.
"""

import gc
import logging
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from winnow.driver.calls import Call, CallState, EngineQueue, EngineQueues, add_origin
from winnow.driver.jobs import Job
from winnow.driver.open_calls import OpenCalls
from winnow.driver.plans import ActivePlans, Waiter
from winnow.driver.stats import ProgressCallback, RunStats
from winnow.errors import ConfigError
from winnow.keys import compute_request_key
from winnow.ledger.claims import AwaitedClaims
from winnow.protocols import CallStore, Engine, Engines
from winnow.records import T
from winnow.requests import Generation, Result, Score, TooLong, Usage
from winnow.steps import Outcome

MAX_ACTIVE = 2048
"""Default number of plans that are active at once."""
_LOOK_UP_SIZE = 500
"""Number of new requests per lookup. Replaying is faster if they fit in the processor's cache."""
_WAIT_SECONDS = 1.0
"""Time to wait for results if a single engine is busy."""
_POLL_SECONDS = 0.05
"""Time to wait for results if several engines are busy or other processes make this run's calls."""
_OTHERS_SECONDS = 0.2
"""Time to wait if other processes make all remaining calls."""
_SILENT_SECONDS = 3600.0
"""Time without a result, longer than calls take, after which calls in flight are given up."""
_log = logging.getLogger(__name__)


class Driver:
    """Runs plans, and serves requests from the ledger or by the engine for their kind and role."""

    def __init__(
        self,
        engines: Engines | Mapping[Hashable, Engines],
        ledger: CallStore,
        *,
        max_active: int = MAX_ACTIVE,
        on_progress: ProgressCallback | None = None,
        stats: RunStats | None = None,
    ) -> None:
        """Create a driver.

        Args:
            engines: Engines by kind of request and role, or several such sets by the names that
                jobs have. An engine may belong to several sets.
            ledger: Open store of finished calls.
            max_active: Maximum number of plans in memory at once.
            on_progress: Function that is called with the counts of the run after each finished plan
                and call.
            stats: Counts to which this run adds its own; by default new ones.
        """
        self.ledger, self.max_active = ledger, max_active
        self.on_progress = on_progress or (lambda _: None)
        self.stats = RunStats() if stats is None else stats
        self._plans = ActivePlans(self.stats)
        self._open_calls = OpenCalls()
        self._queues = EngineQueues(engines)
        self._calls_elsewhere: list[Call] = []
        self._awaited = AwaitedClaims()

    @property
    def engines(self) -> list[Engine]:
        """Return the distinct engines."""
        return [queue.engine for queue in self._queues]

    def run(self, jobs: Iterable[Job[T]]) -> Iterator[Outcome[T]]:
        """Run the jobs' plans, and yield each outcome when its plan finishes, in no fixed order."""
        with _reduce_garbage_collection():
            try:
                yield from self._run(iter(jobs))
            except Exception:
                self._drain()
                raise
            except GeneratorExit as error:  # its consumer ended, for example on a full disk
                if not isinstance(error.__context__, KeyboardInterrupt):
                    self._drain()
                raise

    def _run(self, jobs: Iterator[Job[T]]) -> Iterator[Outcome[T]]:
        plans, exhausted = self._plans, False
        while True:
            while not exhausted and self._has_room() and len(plans.waiters) < _LOOK_UP_SIZE:
                job = next(jobs, None)
                if job is None:
                    exhausted = True
                    break
                plans.start(job)
            self._look_up()
            while (outcome := plans.take_outcome()) is not None:
                self.on_progress(self.stats)
                yield outcome
            if plans.waiters or (not exhausted and self._has_room()):
                continue
            if not plans.count:
                for queue in self._queues:
                    queue.engine.collect(
                        0.0
                    )  # nothing is pending: the call confirms that all results are stored
                return
            self._submit_and_collect()

    def _has_room(self) -> bool:
        """Return whether another plan may start."""
        return self._plans.count < self.max_active

    def _look_up(self) -> None:
        """Answer all new requests from the ledger, merge them with open calls, or queue them."""
        while waiters := self._plans.take_waiters():
            keyed: list[tuple[EngineQueue, bytes, Waiter]] = []
            for waiter in waiters:
                queue = self._queues.find(waiter.active.engines, waiter.request)
                keyed.append((queue, compute_request_key(queue.identity, waiter.request), waiter))
            stored_results = self.ledger.get(
                list({key for _, key, _ in keyed} - self._open_calls.by_key.keys())
            )
            for queue, key, waiter in keyed:
                if key in stored_results:
                    self.stats.ledger_hits += 1
                    self._plans.deliver(waiter, stored_results[key])
                elif key in self._open_calls.by_key:
                    self.stats.merged += 1
                    self._open_calls.by_key[key].waiters.append(waiter)
                else:
                    self._enqueue(queue, key, waiter)

    def _enqueue(self, queue: EngineQueue, key: bytes, waiter: Waiter) -> None:
        """Queue a request as a call, or drop a passage if the prompt exceeds the context length."""
        request = waiter.request
        if (reason := queue.engine.explain_refusal(request)) is not None:
            raise ConfigError(f"{queue.identity} cannot serve {waiter.active.tag}: {reason}")
        if not queue.engine.fits(request):
            self._plans.drop_passage(waiter, f"{queue.engine.count_tokens(request)} tokens")
            return
        call = Call(key, request, queue, [waiter])
        self._open_calls.add(call)
        queue.add(call)

    def _drain(self) -> None:
        """After an error, prevent new server calls, and store the paid results of calls in flight.

        The servers are asked in turn, so that a slow one does not keep the results of the others.
        """
        for queue in self._queues:
            if queue.remote is not None and queue.in_flight and not queue.failed:
                _log.warning(
                    "An error ends the run. Calls to %s that are in flight are awaited, because "
                    "they are paid for; Ctrl+C abandons them.",
                    queue.identity,
                )
                with suppress(Exception):  # the run ends with the first error
                    queue.remote.stop()
        last = time.monotonic()
        while queues := [
            queue
            for queue in self._queues
            if queue.remote is not None and queue.in_flight and not queue.failed
        ]:
            for queue in queues:
                wait_seconds = _WAIT_SECONDS if len(queues) == 1 else _POLL_SECONDS
                with suppress(Exception):
                    if self._store(queue, wait_seconds) is not None:
                        last = time.monotonic()
            if time.monotonic() - last > _SILENT_SECONDS:
                return

    def _submit_and_collect(self) -> None:
        """Submit calls, collect finished results, and wait only if nothing else can be done."""
        for queue in self._queues:
            self._submit(queue)
        busy = [queue for queue in self._queues if queue.in_flight]
        alone = len(busy) == 1 and not self._calls_elsewhere
        progress = [self._collect(queue, _WAIT_SECONDS if alone else 0.0) for queue in busy]
        if not any(progress) and not alone:
            if busy:
                self._collect(busy[0], _POLL_SECONDS)
            elif self._calls_elsewhere:
                time.sleep(_OTHERS_SECONDS)
                self._awaited.describe(self.ledger, [call.key for call in self._calls_elsewhere])
        if self._calls_elsewhere:
            self._poll_elsewhere()

    def _submit(self, queue: EngineQueue) -> None:
        """Claim the next calls of a queue, and submit those that no other process has claimed."""
        batch = queue.take()
        if not batch:
            return
        claimed = self.ledger.claim([call.key for call in batch])
        for call in batch:
            call.state = CallState.SUBMITTED if call.key in claimed else CallState.ELSEWHERE
        self._calls_elsewhere.extend(call for call in batch if call.state is CallState.ELSEWHERE)
        requests = [call.request for call in batch if call.state is CallState.SUBMITTED]
        idle = not queue.in_flight
        queue.engine.submit(requests)
        queue.in_flight += len(requests)
        if idle:
            queue.since = time.monotonic()

    def _collect(self, queue: EngineQueue, timeout: float) -> bool:
        """Store an engine's results and deliver the requested ones; return whether it had any."""
        finished_calls = self._store(queue, timeout)
        for call, result in finished_calls or ():
            if isinstance(result, TooLong):
                for waiter in call.waiters:
                    self._plans.drop_passage(waiter, result.reason)
            else:
                self._deliver_to_all(call, result)
        return finished_calls is not None

    def _store(
        self, queue: EngineQueue, timeout: float
    ) -> list[tuple[Call, Result | TooLong]] | None:
        """Store finished results; return the awaited ones with calls, or None if none finished."""
        start = time.monotonic()
        try:
            results = queue.engine.collect(timeout)
            if not results:
                return None
            now = time.monotonic()
            began = start if queue.remote is None else queue.since
            seconds_per_call, queue.since = (now - began) / len(results), now
            software = queue.engine.software
            keyed = [
                (
                    self._open_calls.find_key(queue, request),
                    request,
                    add_origin(result, seconds_per_call, software),
                )
                for request, result in results
            ]
            rows = [
                (key, request, result, seconds_per_call)
                for key, request, result in keyed
                if not isinstance(result, TooLong)
            ]
            self.ledger.put(queue.identity, rows)
        except Exception:
            queue.failed = (
                True  # to collect again would tell the engine that these results are stored
            )
            raise
        finished_calls: list[tuple[Call, Result | TooLong]] = []
        for key, _, result in keyed:
            call = self._open_calls.close(key)
            if call is None:
                continue
            call.queue.in_flight -= call.state is CallState.SUBMITTED
            call.state = CallState.DONE
            finished_calls.append((call, result))
            if not isinstance(result, TooLong):
                self._count_call(call, result)
        too_long = [call.key for call, result in finished_calls if isinstance(result, TooLong)]
        if too_long:
            self.ledger.release(too_long)
        return finished_calls

    def _count_call(self, call: Call, result: Result) -> None:
        """Count a call that this process made."""
        self.stats.executed += 1
        if isinstance(result, Generation | Score):
            source = call.request.role, call.queue.identity
            self.stats.usage[source] = self.stats.usage.get(source, Usage()) + result.usage

    def _poll_elsewhere(self) -> None:
        """Deliver the results of calls by other processes, and queue the calls they gave up."""
        pending_calls = [
            call for call in self._calls_elsewhere if call.state is CallState.ELSEWHERE
        ]
        stored_results = self.ledger.get([call.key for call in pending_calls])
        for call in pending_calls:
            if call.key in stored_results:
                call.state = CallState.DONE
                self._open_calls.close(call.key)
                self.stats.external += 1
                self._deliver_to_all(call, stored_results[call.key])
        unfinished = [call for call in pending_calls if call.state is CallState.ELSEWHERE]
        claimed = self.ledger.claim([call.key for call in unfinished]) if unfinished else set()
        self._calls_elsewhere = [call for call in unfinished if call.key not in claimed]
        for call in unfinished:
            if call.key in claimed:
                call.queue.add(call)

    def _deliver_to_all(self, call: Call, result: Result) -> None:
        """Deliver a result to every plan that waits for the call."""
        for waiter in call.waiters:
            self._plans.deliver(waiter, result)
        self.on_progress(self.stats)


@contextmanager
def _reduce_garbage_collection() -> Iterator[None]:
    """Make Python collect garbage less often, because plans hardly ever form reference cycles.

    With the default threshold, a run that finds every call in the ledger takes 1.5 times as long.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
