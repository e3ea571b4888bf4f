"""Calls without a result, the plans that wait for them, and the queue of each engine. Internal to the driver."""

import enum
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from winnow.protocols import Engine
from winnow.records import NO_USAGE, Generation, Plan, Request, Result, Role, RoleUsage, Usage


@dataclass(slots=True, eq=False)
class ActivePlan:
    """A plan that waits for results."""

    tag: Hashable
    plan: Plan[Any]
    waiting: int = 0
    results: list[Result | None] = field(default_factory=list)
    calls: dict[Role, int] = field(default_factory=dict)
    usage: dict[Role, Usage] = field(default_factory=dict)
    cut: dict[Role, int] = field(default_factory=dict)
    empty: dict[Role, int] = field(default_factory=dict)
    dropped: int = 0

    def count_reply(self, role: Role, reply: Generation) -> None:
        """Count a reply that was cut, or that has no text."""
        if reply.finish == "length":
            self.cut[role] = self.cut.get(role, 0) + 1
        if not reply.text.strip():
            self.empty[role] = self.empty.get(role, 0) + 1

    def role_usage(self, role: Role) -> RoleUsage:
        """Return what the plan has used of one role so far."""
        usage, cut, empty = self.usage.get(role, NO_USAGE), self.cut.get(role, 0), self.empty.get(role, 0)
        return RoleUsage(role, self.calls[role], usage.tokens_in, usage.tokens_out, usage.seconds, cut, empty)


@dataclass(slots=True, eq=False)
class Waiter:
    """A slot of a plan that waits for a result. `dropped` counts the passages dropped from the prompt so far."""

    active: ActivePlan
    slot: int
    request: Request
    dropped: int = 0


class CallState(enum.Enum):
    """State of a call. ELSEWHERE means that another process has claimed it."""

    QUEUED = enum.auto()
    SUBMITTED = enum.auto()
    ELSEWHERE = enum.auto()
    DONE = enum.auto()


@dataclass(slots=True, eq=False)
class Call:
    """A distinct request that has no result yet, and the plans that wait for it."""

    key: bytes
    request: Request
    length: int
    lane: "Lane"
    waiters: list[Waiter]
    state: CallState = CallState.QUEUED


@dataclass(slots=True, eq=False)
class Lane:
    """An engine, its queue of calls, and the number of calls in flight."""

    engine: Engine
    identity: str
    queue: list[Call] = field(default_factory=list)
    """Sorted by length unless calls were added since (see `unsorted`). The longest are taken first, from the end."""
    unsorted: bool = False
    in_flight: int = 0
    since: float = 0.0
    """Time at which a server last returned results or became busy."""
    failed: bool = False

    @property
    def remote(self) -> bool:
        """Return whether the engine waits for a server. An engine in this process computes only during `collect`."""
        return getattr(self.engine, "remote", False)

    def add(self, call: Call) -> None:
        """Add a call to the queue."""
        call.state = CallState.QUEUED
        self.queue.append(call)
        self.unsorted = True

    def take(self) -> list[Call]:
        """Take as many calls from the queue as the engine has capacity for.

        While calls are in flight, none is taken until a quarter of the capacity is free. This saves commits.
        """
        free = self.engine.capacity - self.in_flight
        if not self.queue or (self.in_flight and free < self.engine.capacity / 4) or free <= 0:
            return []
        if self.unsorted:
            self.queue = [call for call in self.queue if call.state is CallState.QUEUED]
            self.queue.sort(key=lambda call: call.length)
            self.unsorted = False
        batch, self.queue = self.queue[-free:], self.queue[:-free]
        return [call for call in batch if call.state is CallState.QUEUED]
