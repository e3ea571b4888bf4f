"""The driver: advances thousands of plans at once and has each distinct request served once.

It looks requests up in the ledger, merges equal ones in flight, submits the rest to the engine of their kind and role,
commits each result before it delivers it, and shares work with other processes through the ledger's claims. It keeps a
window of plans in memory, never all of them. No engine waits for another: servers are polled while local models compute.
"""

import gc
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Generic

from winnow.calls import ActivePlan, Call, CallState, Lane, Waiter
from winnow.errors import CallRefusedError, ConfigError, PromptTooLongError
from winnow.identity import ledger_identity
from winnow.keys import request_key
from winnow.protocols import CallStore, Engines
from winnow.records import (
    Estimate,
    Failed,
    FusedGenerate,
    Generate,
    Generation,
    Likelihood,
    Outcome,
    Plan,
    Request,
    Result,
    Role,
    Score,
    T,
    TooLong,
    Usage,
)

MAX_ACTIVE = 2048
"""How many plans are active at once by default."""
_WAIT_SECONDS = 1.0
_POLL_SECONDS = 0.05
_OTHERS_SECONDS = 0.2
_DRAIN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Job(Generic[T]):
    """One plan to run; `tag` identifies its cell and question."""

    tag: Hashable
    plan: Plan[T]


@dataclass(slots=True)
class Tally:
    """Counts of a run so far: requests = ledger_hits + merged + executed (+ external, executed by another process)."""

    plans: int = 0
    requests: int = 0
    ledger_hits: int = 0
    merged: int = 0
    executed: int = 0
    external: int = 0
    usage: dict[Role, Usage] = field(default_factory=dict)
    """Of the executed calls, by role."""

    @property
    def shared(self) -> float:
        """Return the share of requests that cost nothing (0 to 1)."""
        return 1 - self.executed / self.requests if self.requests else 0.0


Tick = Callable[[Tally], None]


class Driver:
    """Runs plans against engines, chosen by request kind and role, with a ledger; iterate over `run` for the outcomes."""

    def __init__(self, engines: Engines, ledger: CallStore, *, max_active: int = MAX_ACTIVE, tick: Tick | None = None) -> None:
        """Keep the engines; `max_active` bounds the plans held in memory at once."""
        self.engines, self.ledger, self.max_active = engines, ledger, max_active
        self.tick = tick or (lambda _: None)
        self.tally = Tally()
        self._open: dict[bytes, Call] = {}
        self._new: list[Waiter] = []
        self._lanes = {id(engine): Lane(engine, ledger_identity(engine)) for engine in engines.values()}
        self._by_request = {which: self._lanes[id(engine)] for which, engine in engines.items()}
        self._elsewhere: list[Call] = []
        self._outcomes: deque[Outcome[Any]] = deque()
        self._active = 0

    def run(self, jobs: Iterable[Job[T]]) -> Iterator[Outcome[T]]:
        """Yield outcomes as plans finish, in no fixed order."""
        with _rare_garbage_collection():
            yield from self._run(iter(jobs))

    def _run(self, jobs: Iterator[Job[T]]) -> Iterator[Outcome[T]]:
        exhausted = False
        while True:
            while not exhausted and self._active < self.max_active:
                job = next(jobs, None)
                if job is None:
                    exhausted = True
                    break
                self._active += 1
                self._advance(ActivePlan(job.tag, job.plan), None)
            self._look_up()
            while self._outcomes:
                self._active -= 1
                self.tally.plans += 1
                self.tick(self.tally)
                yield self._outcomes.popleft()
            if self._new or (not exhausted and self._active < self.max_active):
                continue
            if not self._active:
                for lane in self._lanes.values():
                    lane.engine.collect(0.0)  # nothing is pending: the call confirms that all results are stored
                return
            self._work()

    def _advance(self, active: ActivePlan, results: list[Any] | None) -> None:
        """Resume one plan and queue its next requests; an empty list of requests is answered at once."""
        try:
            while True:
                requests = next(active.plan) if results is None else active.plan.send(results)
                if requests:
                    break
                results = []
        except StopIteration as stop:
            usage = tuple(active.role_usage(role) for role in active.calls)
            self._outcomes.append(Outcome(active.tag, stop.value, usage, active.dropped))
            return
        active.results = [None] * len(requests)
        active.waiting = len(requests)
        for request in requests:
            active.calls[request.role] = active.calls.get(request.role, 0) + 1
        self.tally.requests += len(requests)
        self._new.extend(Waiter(active, slot, request) for slot, request in enumerate(requests))

    def _look_up(self) -> None:
        """Answer new requests from the ledger, merge those in flight, queue the rest, until no new one appears."""
        while self._new:
            batch, self._new = self._new, []
            keyed = [(lane := self._lane(w.request), request_key(lane.identity, w.request), w) for w in batch]
            stored = self.ledger.get(list({key for _, key, _ in keyed} - self._open.keys()))
            for lane, key, waiter in keyed:
                if key in stored:
                    self.tally.ledger_hits += 1
                    self._deliver(waiter, stored[key])
                elif key in self._open:
                    self.tally.merged += 1
                    self._open[key].waiters.append(waiter)
                else:
                    self._queue(lane, key, waiter)

    def _queue(self, lane: Lane, key: bytes, waiter: Waiter) -> None:
        request = waiter.request
        if (reason := lane.engine.refusal(request)) is not None:
            raise ConfigError(f"{lane.identity} cannot serve {waiter.active.tag}: {reason}")
        if not lane.engine.fits(request):
            self._shorten(waiter, f"{lane.engine.size(request)} tokens")
            return
        self._open[key] = call = Call(key, request, _length(request), lane, [waiter])
        lane.add(call)

    def _shorten(self, waiter: Waiter, reason: str) -> None:
        """Request the same with one passage fewer."""
        request = waiter.request
        shorter = request.shortened() if isinstance(request, Generate) else None
        if shorter is None:
            raise PromptTooLongError(
                f"A prompt for {waiter.active.tag} exceeds the model's context length ({reason}) and has no passage left "
                "to drop but its last. Shorten the prompt or use a model with a longer context."
            )
        self._new.append(Waiter(waiter.active, waiter.slot, shorter, waiter.dropped + 1))

    def _deliver(self, waiter: Waiter, result: Result) -> None:
        active = waiter.active
        if isinstance(result, Generation | Score):
            role = waiter.request.role
            active.usage[role] = active.usage[role] + result.usage if role in active.usage else result.usage
            if isinstance(result, Generation):
                active.count_reply(role, result)
        if isinstance(result, Generation) and waiter.dropped and isinstance(waiter.request, Generate):
            active.dropped += waiter.dropped
            result = replace(result, dropped=waiter.dropped, passages=waiter.request.passages)
        elif isinstance(result, Failed) and isinstance(waiter.request, Generate) and not waiter.request.may_fail:
            raise CallRefusedError(
                f"A call of {active.tag} was refused in an earlier run or for another plan: {result.reason} "
                "`winnow ledger prune --failed` deletes refused calls, so that they are requested again."
            )
        active.results[waiter.slot] = result
        active.waiting -= 1
        if not active.waiting:
            self._advance(active, active.results)

    def _work(self) -> None:
        """Do a round of work; if it fails, store what servers still return for the calls in flight, which are paid."""
        try:
            self._round()
        except Exception:
            self._drain()
            raise

    def _drain(self) -> None:
        deadline = time.monotonic() + _DRAIN_SECONDS
        for lane in self._lanes.values():
            with suppress(Exception):  # the run ends with the first error
                while lane.remote and lane.in_flight and not lane.failed and time.monotonic() < deadline:
                    self._collect(lane, _WAIT_SECONDS)

    def _round(self) -> None:
        """Submit claimed calls, collect what is finished, and wait only when nothing else can be done."""
        for lane in self._lanes.values():
            self._submit(lane)
        busy = [lane for lane in self._lanes.values() if lane.in_flight]
        alone = len(busy) == 1 and not self._elsewhere
        progress = [self._collect(lane, _WAIT_SECONDS if alone else 0.0) for lane in busy]
        if not any(progress) and not alone:
            if busy:
                self._collect(busy[0], _POLL_SECONDS)
            elif self._elsewhere:
                time.sleep(_OTHERS_SECONDS)
        if self._elsewhere:
            self._poll_elsewhere()

    def _submit(self, lane: Lane) -> None:
        batch = lane.take()
        if not batch:
            return
        claimed = self.ledger.claim([call.key for call in batch])
        for call in batch:
            call.state = CallState.SUBMITTED if call.key in claimed else CallState.ELSEWHERE
        self._elsewhere.extend(call for call in batch if call.state is CallState.ELSEWHERE)
        requests = [call.request for call in batch if call.state is CallState.SUBMITTED]
        idle = not lane.in_flight
        lane.in_flight += len(requests)
        lane.engine.submit(requests)
        if idle:
            lane.since = time.monotonic()

    def _collect(self, lane: Lane, timeout: float) -> bool:
        """Store and deliver what an engine has finished; results that nobody requested are stored too."""
        start = time.monotonic()
        try:
            results = lane.engine.collect(timeout)
        except Exception:
            lane.failed = True
            raise
        if not results:
            return False
        now = time.monotonic()
        share, lane.since = (now - (lane.since if lane.remote else start)) / len(results), now
        keyed = [(request_key(lane.identity, request), request, _timed(result, share)) for request, result in results]
        rows = [(key, request, result, share) for key, request, result in keyed if not isinstance(result, TooLong)]
        self.ledger.put(lane.identity, rows)
        refused: list[bytes] = []
        for key, _, result in keyed:
            call = self._open.pop(key, None)
            if call is None:
                continue
            call.lane.in_flight -= call.state is CallState.SUBMITTED
            call.state = CallState.DONE
            if isinstance(result, TooLong):
                refused.append(key)
                for waiter in call.waiters:
                    self._shorten(waiter, result.reason)
            else:
                self._finish(call, result)
        if refused:
            self.ledger.release(refused)
        return True

    def _finish(self, call: Call, result: Result) -> None:
        self.tally.executed += 1
        if isinstance(result, Generation | Score):
            role = call.request.role
            self.tally.usage[role] = self.tally.usage.get(role, Usage()) + result.usage
        self._release(call, result)

    def _poll_elsewhere(self) -> None:
        """Take over the results of other processes, and the calls that they gave up."""
        waiting = [call for call in self._elsewhere if call.state is CallState.ELSEWHERE]
        stored = self.ledger.get([call.key for call in waiting])
        for call in waiting:
            if call.key in stored:
                call.state = CallState.DONE
                del self._open[call.key]
                self.tally.external += 1
                self._release(call, stored[call.key])
        left = [call for call in waiting if call.state is CallState.ELSEWHERE]
        claimed = self.ledger.claim([call.key for call in left]) if left else set()
        self._elsewhere = [call for call in left if call.key not in claimed]
        for call in left:
            if call.key in claimed:
                call.lane.add(call)

    def _release(self, call: Call, result: Result) -> None:
        for waiter in call.waiters:
            self._deliver(waiter, result)
        self.tick(self.tally)

    def _lane(self, request: Request) -> Lane:
        try:
            return self._by_request[type(request), request.role]
        except KeyError:
            raise ConfigError(no_engine(request, self.engines)) from None


def no_engine(request: Request, engines: Engines) -> str:
    """Return the message for a request that no engine of the run serves."""
    known = ", ".join(f"{kind.__name__} ({role})" for kind, role in engines)
    hint = "Add the role to `engines` in the strategy's YAML and choose a component for it."
    if isinstance(request, Likelihood):
        hint = (
            "Strategies that score likelihoods (marginal, marginal_fast) need a reader on this machine; for an API there is "
            "strategy=marginal_generated."
        )
    elif isinstance(request, FusedGenerate):
        hint = "The strategy fid needs a Fusion-in-Decoder model: reader=fid."
    return f"A plan requested {type(request).__name__} of the role {request.role!r}; this run has engines for: {known}. {hint}"


@contextmanager
def _rare_garbage_collection() -> Iterator[None]:
    """Let Python look for reference cycles less often: the objects of a window of plans are hardly ever in one.

    At the default threshold a replay takes half as long again.
    """
    before = gc.get_threshold()
    gc.set_threshold(100_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _timed(result: Result | TooLong, seconds: float) -> Result | TooLong:
    """Return a generation with its time: the calls of a batch share the batch's equally."""
    if isinstance(result, Generation) or (isinstance(result, Score) and result.usage.tokens_in):
        return replace(result, usage=replace(result.usage, seconds=seconds))
    return result


def _length(request: Request) -> int:
    if isinstance(request, Generate):
        return sum(len(message.content) for message in request.messages)
    if isinstance(request, Estimate):
        return len(request.text)
    return 0
