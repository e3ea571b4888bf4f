"""The driver: advances thousands of plans at once and meets their requests, each distinct one once.

It looks requests up in the ledger, merges equal ones in flight, hands the rest to the engine of their kind, commits
each result before it passes it on, and shares work with other processes through the ledger's claims. It holds a
window of plans in memory, never all of them.
"""

import gc
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from winnow.errors import ConfigError, PromptTooLongError
from winnow.keys import request_key
from winnow.ledger import Ledger
from winnow.protocols import Engine
from winnow.records import Estimate, Generate, Generation, Outcome, Plan, Request, Result, TooLong, Usage

WINDOW = 2048
"""Plans under way at once, if nothing else is said."""
UNSERVED = (
    "Configure the missing component (reader, estimator or search); strategies that score likelihoods (marginal, "
    "marginal_fast) need a reader of this machine."
)
"""What to do about a request that no engine of the run serves."""
Tick = Callable[["Tally"], None]


@dataclass(frozen=True, slots=True)
class Job:
    """One plan to carry out; `tag` says which cell and question it belongs to."""

    tag: Hashable
    plan: Plan


@dataclass(slots=True)
class Tally:
    """What the driver did so far. asked = from_ledger + merged + made (+ by_others, done by another process)."""

    plans: int = 0
    asked: int = 0
    from_ledger: int = 0
    merged: int = 0
    made: int = 0
    by_others: int = 0
    usage: Usage = field(default_factory=Usage)
    """Of the calls made."""

    @property
    def shared(self) -> float:
        """Return the share of asked-for calls that cost nothing (0 to 1)."""
        return 1 - self.made / self.asked if self.asked else 0.0


@dataclass(slots=True, eq=False)
class _Active:
    job: Job
    waiting: int = 0
    results: list[Result | None] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    calls: int = 0
    dropped: int = 0


@dataclass(slots=True, eq=False)
class _Call:
    """A distinct request that is not met yet, and every place that waits for it."""

    key: bytes
    request: Request
    length: int
    waiters: list[tuple[_Active, int, int]] = field(default_factory=list)
    """Whose plan, which of its requests, and how many passages that one had to drop to come to this prompt."""


@dataclass(slots=True, eq=False)
class _Lane:
    """An engine, the calls that are ready for it, and how many it has in hand."""

    engine: Engine
    ready: list[_Call] = field(default_factory=list)
    """Sorted by length up to the last refill; the longest are taken first, from the end."""
    unsorted: bool = False
    busy: int = 0

    def add(self, call: _Call) -> None:
        self.ready.append(call)
        self.unsorted = True

    def take(self) -> list[_Call]:
        """Take what the engine has room for, in one go for each quarter of its capacity, which saves commits."""
        room = self.engine.capacity - self.busy
        if not self.ready or (self.busy and room < self.engine.capacity / 4) or room <= 0:
            return []
        if self.unsorted:
            self.ready.sort(key=lambda call: call.length)
            self.unsorted = False
        taken, self.ready = self.ready[-room:], self.ready[:-room]
        return taken


class Driver:
    """Runs plans against engines, one a kind of request, with a ledger; iterate over `run` for the outcomes."""

    def __init__(
        self, engines: Mapping[type, Engine], ledger: Ledger, *, window: int = WINDOW, tick: Tick | None = None
    ) -> None:
        """Keep the engines by request kind; `window` bounds the plans held in memory at once."""
        self.engines, self.ledger, self.window = engines, ledger, window
        self.tick = tick or (lambda _: None)
        self.tally = Tally()
        self._open: dict[bytes, _Call] = {}
        self._fresh: list[tuple[_Active, int, Request, int]] = []
        self._lanes = [_Lane(engine) for engine in {id(engine): engine for engine in engines.values()}.values()]
        self._elsewhere: list[tuple[_Lane, _Call]] = []
        self._done: deque[Outcome] = deque()
        self._active = 0

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """Yield outcomes as plans finish, in no fixed order."""
        with _few_collections():
            yield from self._run(jobs)

    def _run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        source = iter(jobs)
        exhausted = False
        while True:
            while not exhausted and self._active < self.window:
                job = next(source, None)
                if job is None:
                    exhausted = True
                    break
                self._active += 1
                self._advance(_Active(job), None)
            self._look_up()
            while self._done:
                self._active -= 1
                self.tally.plans += 1
                self.tick(self.tally)
                yield self._done.popleft()
            if self._fresh or (not exhausted and self._active < self.window):
                continue
            if not self._active:
                for lane in self._lanes:
                    lane.engine.collect()  # nothing is pending: it tells the engine that all its results are stored
                return
            self._work()

    def _advance(self, active: _Active, results: list[Any] | None) -> None:
        """Resume one plan and note what it asks for next; lists of no requests are answered at once."""
        try:
            while True:
                asked = next(active.job.plan) if results is None else active.job.plan.send(results)
                if asked:
                    break
                results = []
        except StopIteration as stop:
            self._done.append(Outcome(active.job.tag, stop.value, active.usage, active.calls, active.dropped))
            return
        active.results = [None] * len(asked)
        active.waiting = len(asked)
        active.calls += len(asked)
        self.tally.asked += len(asked)
        self._fresh.extend((active, slot, request, 0) for slot, request in enumerate(asked))

    def _look_up(self) -> None:
        """Answer new requests from the ledger, merge those in flight, queue the rest; until nothing new is asked."""
        while self._fresh:
            batch, self._fresh = self._fresh, []
            keyed = [(request_key(self._engine(q).identity, q), a, slot, q, d) for a, slot, q, d in batch]
            stored = self.ledger.get(list({key for key, *_ in keyed} - self._open.keys()))
            for key, active, slot, request, dropped in keyed:
                if key in stored:
                    self.tally.from_ledger += 1
                    self._deliver(active, slot, stored[key], dropped)
                elif key in self._open:
                    self.tally.merged += 1
                    self._open[key].waiters.append((active, slot, dropped))
                else:
                    self._queue(key, active, slot, request, dropped)

    def _queue(self, key: bytes, active: _Active, slot: int, request: Request, dropped: int) -> None:
        engine = self._engine(request)
        if not engine.fits(request):
            self._shorten(active, slot, request, dropped, f"{engine.size(request)} tokens")
            return
        call = _Call(key, request, _length(request), [(active, slot, dropped)])
        self._open[key] = call
        next(lane for lane in self._lanes if lane.engine is engine).add(call)

    def _shorten(self, active: _Active, slot: int, request: Request, dropped: int, why: str) -> None:
        """Ask again with a passage fewer."""
        shorter = request.shorter() if isinstance(request, Generate) and request.shorter else None
        if shorter is None or not isinstance(request, Generate):
            raise PromptTooLongError(
                f"A prompt for {active.job.tag} exceeds the model's window ({why}) and has no passage left to drop but its "
                "last. Shorten the prompt or take a model with a longer window."
            )
        self._fresh.append((active, slot, replace(shorter, sample=request.sample), dropped + 1))

    def _deliver(self, active: _Active, slot: int, result: Result, dropped: int) -> None:
        if isinstance(result, Generation):
            active.usage += result.usage
            if dropped:
                active.dropped += dropped
                result = replace(result, dropped=dropped)
        active.results[slot] = result
        active.waiting -= 1
        if not active.waiting:
            self._advance(active, active.results)

    def _work(self) -> None:
        """Hand claimed calls to the engines and take what they finished; wait for other processes where need be."""
        finished = False
        for lane in self._lanes:
            self._submit(lane)
            if lane.busy:
                finished = self._collect(lane) or finished
        if not finished and self._elsewhere:
            time.sleep(0.2)
        if self._elsewhere:
            self._poll_elsewhere()

    def _submit(self, lane: _Lane) -> None:
        chosen = lane.take()
        if not chosen:
            return
        won = self.ledger.claim([call.key for call in chosen])
        self._elsewhere.extend((lane, call) for call in chosen if call.key not in won)
        mine = [call.request for call in chosen if call.key in won]
        lane.engine.submit(mine)
        lane.busy += len(mine)

    def _collect(self, lane: _Lane) -> bool:
        started = time.monotonic()
        results = lane.engine.collect()
        share = (time.monotonic() - started) / max(1, len(results))
        identity = lane.engine.identity
        keyed = [(request_key(identity, request), request, result) for request, result in results]
        rows = [
            (key, request, _timed(result, share), share) for key, request, result in keyed if not isinstance(result, TooLong)
        ]
        self.ledger.put(identity, rows)
        lane.busy -= sum(key in self._open for key, _, _ in keyed)  # a batch may bring what another run asked for
        self.tally.made += sum(key in self._open for key, *_ in rows)
        for key, _, result, _ in rows:
            if key in self._open:
                if isinstance(result, Generation):
                    self.tally.usage += result.usage
                self._release(key, result)
        self._retry_shorter(
            [(key, result.reason) for key, _, result in keyed if isinstance(result, TooLong) and key in self._open]
        )
        return bool(keyed)

    def _retry_shorter(self, refused: Sequence[tuple[bytes, str]]) -> None:
        """Let every plan that waits for a prompt which the server found too long ask with a passage fewer."""
        if refused:
            self.ledger.release([key for key, _ in refused])
        for key, reason in refused:
            call = self._open.pop(key)
            for active, slot, dropped in call.waiters:
                self._shorten(active, slot, call.request, dropped, reason)

    def _poll_elsewhere(self) -> None:
        stored = self.ledger.get([call.key for _, call in self._elsewhere])
        left = [(lane, call) for lane, call in self._elsewhere if call.key not in stored]
        for key, result in stored.items():
            self.tally.by_others += 1
            self._release(key, result)
        won = self.ledger.claim([call.key for _, call in left]) if left else set()
        self._elsewhere = [(lane, call) for lane, call in left if call.key not in won]
        for lane, call in left:
            if call.key in won:
                lane.add(call)

    def _release(self, key: bytes, result: Result) -> None:
        call = self._open.pop(key)
        for active, slot, dropped in call.waiters:
            self._deliver(active, slot, result, dropped)
        self.tick(self.tally)

    def _engine(self, request: Request) -> Engine:
        try:
            return self.engines[type(request)]
        except KeyError:
            kinds = ", ".join(kind.__name__ for kind in self.engines)
            raise ConfigError(
                f"A strategy asked for {type(request).__name__}, but this run only has engines for: {kinds}. {UNSERVED}"
            ) from None


@contextmanager
def _few_collections() -> Iterator[None]:
    """Let Python look for cycles of garbage less often: a window of plans is many objects, nearly none of them in cycles.

    At its usual pace it scans them so often that a replay takes half as long again.
    """
    before = gc.get_threshold()
    gc.set_threshold(100_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _timed(result: Result, seconds: float) -> Result:
    """Note how long a generation took; what ran together shares the time equally."""
    return replace(result, usage=replace(result.usage, seconds=seconds)) if isinstance(result, Generation) else result


def _length(request: Request) -> int:
    if isinstance(request, Generate):
        return sum(len(message.content) for message in request.messages)
    if isinstance(request, Estimate):
        return len(request.text)
    return 0
