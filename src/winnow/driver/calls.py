"""Calls that have no result yet, and the queue of each engine.

Several plans may wait for the same call.
"""

import enum
import heapq
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct, structs

from winnow.driver.plans import Waiter
from winnow.errors import ConfigError
from winnow.identity.code import get_ledger_identity
from winnow.protocols import Engine, Engines, RemoteEngine
from winnow.requests import (
    Estimate,
    FusedGenerate,
    Generate,
    Generation,
    Likelihood,
    Request,
    Result,
    Score,
    TooLong,
)


class CallState(enum.Enum):
    """State of a call; ELSEWHERE if another process reserved it in the ledger and makes it."""

    QUEUED = enum.auto()
    SUBMITTED = enum.auto()
    ELSEWHERE = enum.auto()
    DONE = enum.auto()


class Call(Struct, eq=False):
    """A distinct request that has no result yet, and the plans that wait for it.

    Attributes:
        key: Key of the request in the ledger.
        request: Request that is submitted to the engine.
        queue: Queue of the engine that serves the request.
        waiters: Requests of plans that wait for the result.
        state: State of the call.
    """

    key: bytes
    request: Request
    queue: "EngineQueue"
    waiters: list[Waiter]
    state: CallState = CallState.QUEUED


@dataclass(slots=True, eq=False)
class EngineQueue:
    """The queue of an engine, and the number of calls in flight (submitted but not finished)."""

    engine: Engine
    identity: str
    waiting: list[tuple[Any, int, Call]] = field(default_factory=list)
    """Heap of the waiting calls: sort key, number of the call among those added, and the call."""
    num_added: int = 0
    in_flight: int = 0
    since: float = 0.0
    """Time (`time.monotonic`) at which a server last returned results or became busy."""
    failed: bool = False
    """Whether the engine raised an error."""
    remote: RemoteEngine | None = field(init=False)
    """The engine if it waits for a server."""

    def __post_init__(self) -> None:
        """Ask once what the engine is."""
        self.remote = self.engine if isinstance(self.engine, RemoteEngine) else None

    def add(self, call: Call) -> None:
        """Add a call to the queue and mark it as queued."""
        call.state = CallState.QUEUED
        self.num_added += 1
        heapq.heappush(self.waiting, (self._compute_sort_key(call.request), self.num_added, call))

    def _compute_sort_key(self, request: Request) -> Any:
        """Return the sort key of waiting calls: the longest first, or in the order of their texts.

        In the order of their texts, the prompts of a question with the same first passages follow
        each other, and so does a later prompt of a plan that begins like its first one.
        """
        texts = list_texts(request)
        return texts if self.engine.reuses_prefixes else -sum(map(len, texts))

    def take(self) -> list[Call]:
        """Remove from the queue as many calls as the engine has capacity for, and return them.

        While calls are in flight, none is taken until a quarter of the capacity is free, so that
        fewer commits are needed.
        """
        free_slots = self.engine.capacity - self.in_flight
        batch: list[Call] = []
        if self.in_flight and free_slots < self.engine.capacity / 4:
            return batch
        while self.waiting and len(batch) < free_slots:
            _, _, call = heapq.heappop(self.waiting)
            if call.state is CallState.QUEUED:
                batch.append(call)
        return batch


class EngineQueues:
    """The queues of all engines, found by a plan's engine set, the kind of request and the role."""

    def __init__(self, engines: Engines | Mapping[Hashable, Engines]) -> None:
        """Create a queue for each distinct engine. A single set of engines serves every plan."""
        sets: Mapping[Any, Any] = engines
        self._is_single = not any(isinstance(one, Mapping) for one in sets.values())
        self._sets: Mapping[Hashable, Engines] = {None: sets} if self._is_single else sets
        distinct = {id(engine): engine for one in self._sets.values() for engine in one.values()}
        self._queues = {
            number: EngineQueue(engine, get_ledger_identity(engine))
            for number, engine in distinct.items()
        }
        self._by_request = {
            name: {kind_and_role: self._queues[id(engine)] for kind_and_role, engine in one.items()}
            for name, one in self._sets.items()
        }

    def __iter__(self) -> Iterator[EngineQueue]:
        """Yield the queue of each distinct engine."""
        return iter(self._queues.values())

    def find(self, name: Hashable, request: Request) -> EngineQueue:
        """Return the queue of a set's engine for a request; raise ConfigError if there is none."""
        name = None if self._is_single else name
        if name not in self._by_request:
            raise ConfigError(
                f"A job names the set of engines {name!r}, and the driver has "
                f"{list(self._by_request)}."
            )
        queue = self._by_request[name].get((type(request), request.role))
        if queue is None:
            raise ConfigError(describe_missing_engine(request, self._sets[name]))
        return queue


def add_origin(result: Result | TooLong, seconds: float, software: str) -> Result | TooLong:
    """Return a result with its origin and, if tokens were counted, its share of the batch time.

    Args:
        result: Result of any request.
        seconds: Share of the time.
        software: Library and version of a local engine, which results have in place of the name of
            a server's model.
    """
    if isinstance(result, Generation):
        usage = structs.replace(result.usage, seconds=seconds)
        return structs.replace(result, usage=usage, model=result.model or software)
    if isinstance(result, Score):
        usage = (
            structs.replace(result.usage, seconds=seconds)
            if result.usage.tokens_in
            else result.usage
        )
        return structs.replace(result, usage=usage, model=result.model or software)
    return result


def list_texts(request: Request) -> list[str]:
    """Return the texts that the model reads for a request, in the order of the prompt."""
    if isinstance(request, Generate):
        tools = [tool.name + tool.description + tool.parameters for tool in request.tools]
        return [*tools, *(message.content for message in request.messages)]
    if isinstance(request, Likelihood):
        return [*(message.content for message in request.messages), request.continuation]
    return [request.text] if isinstance(request, Estimate) else []


def describe_missing_engine(request: Request, engines: Engines) -> str:
    """Build the error message for a request that no engine of the run serves."""
    served_kinds = ", ".join(f"{kind.__name__} ({role})" for kind, role in engines)
    hint = "Add the role to `engines` in the strategy's YAML and choose a component for it."
    if isinstance(request, Likelihood):
        hint = (
            "Strategies that score likelihoods (marginal, marginal_fast) need a reader on this "
            "machine, or a server with reader.engine.dialect=vllm. With another API, use "
            "strategy=marginal_generated."
        )
    elif isinstance(request, FusedGenerate):
        hint = "The strategy fid needs a Fusion-in-Decoder model. Use reader=fid."
    return (
        f"A plan requested {type(request).__name__} of the role {request.role!r}, but this run "
        f"serves only {served_kinds}. {hint}"
    )
