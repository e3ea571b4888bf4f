"""The plans that run, the results that they wait for, and the outcomes of those that ended.

A plan is the generator that requests the model calls for one question (see `winnow.requests.Plan`).
"""

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct, structs

from winnow.driver.jobs import Job
from winnow.driver.stats import RunStats
from winnow.errors import CallRefusedError, PromptTooLongError
from winnow.predictions import RoleUsage
from winnow.records import Role
from winnow.requests import (
    Estimate,
    Failed,
    Generate,
    Generation,
    Plan,
    Request,
    Result,
    Score,
    TooLong,
    Usage,
)
from winnow.steps import Outcome, Step, describe_round, describe_stop


@dataclass(slots=True, eq=False)
class RoleCounts:
    """What a plan has used of one role so far, with cut and empty replies (see `RoleUsage`)."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    cut: int = 0
    empty: int = 0
    tokens_reasoning: int = 0
    replies: int = 0

    def add(self, usage: Usage) -> None:
        """Add the tokens and the time of a result."""
        self.tokens_in += usage.tokens_in
        self.tokens_out += usage.tokens_out
        self.tokens_reasoning += usage.tokens_reasoning
        self.seconds += usage.seconds

    def add_reply(self, reply: Generation) -> None:
        """Add a reply's tokens and time; count it if it ended at max_new_tokens or has no text."""
        self.add(reply.usage)
        self.replies += 1
        if reply.finish == "length":
            self.cut += 1
        if reply.is_empty:
            self.empty += 1


@dataclass(slots=True, eq=False)
class ActivePlan:
    """A plan that waits for results, with counts of what it has used so far.

    Attributes:
        tag: Value that identifies the plan.
        plan: Generator that yields requests and receives their results.
        engines: Name of the set of engines that serves the plan.
        waiting: Number of requests of the current round that have no result yet.
        requests: Requests of the current round as they are served, which may have fewer passages
            than at first.
        results: Results of the current round, in the order of its requests.
        counts: Calls, tokens and time by role.
        dropped: Number of passages dropped from prompts to make them fit.
        num_rounds: Number of finished rounds.
        steps: What the plan requested and received in the finished rounds.
    """

    tag: Hashable
    plan: Plan[Any]
    engines: Hashable = None
    waiting: int = 0
    requests: list[Request] = field(default_factory=list)
    results: list[Result | TooLong | None] = field(default_factory=list)
    counts: dict[Role, RoleCounts] = field(default_factory=dict)
    dropped: int = 0
    num_rounds: int = 0
    steps: list[Step] = field(default_factory=list)

    def begin_round(self, requests: Sequence[Request]) -> None:
        """Keep the requests of a new round, none of which has a result yet."""
        self.requests, self.results = list(requests), [None] * len(requests)
        self.waiting = len(requests)
        for request in requests:
            self.count_call(request.role)

    def finish_round(self) -> None:
        """Record what the round requested and received."""
        self.num_rounds += 1
        self.steps += describe_round(self.num_rounds, self.requests, self.results)

    def count_call(self, role: Role) -> None:
        """Count a request of a role."""
        if role not in self.counts:
            self.counts[role] = RoleCounts()
        self.counts[role].calls += 1

    def list_usage(self) -> tuple[RoleUsage, ...]:
        """Return the plan's usage so far by role, in the order of the roles' first requests."""
        return tuple(
            RoleUsage(
                role,
                usage.calls,
                usage.tokens_in,
                usage.tokens_out,
                usage.seconds,
                usage.cut,
                usage.empty,
                usage.tokens_reasoning,
                usage.replies,
            )
            for role, usage in self.counts.items()
        )


class Waiter(Struct, eq=False):
    """A request of a plan that waits for its result.

    Attributes:
        active: Plan that made the request.
        slot: Index of the request in the current round of the plan.
        request: Request, possibly with fewer passages than the original one.
        dropped: Number of passages dropped from the prompt so far.
    """

    active: ActivePlan
    slot: int
    request: Request
    dropped: int = 0

    def receive(self, result: Result | TooLong) -> Result | TooLong:
        """Count a result for the plan, and return it as the plan receives it.

        Raises:
            CallRefusedError: If the call was refused earlier, and the plan cannot continue without
                it.
        """
        active, request = self.active, self.request
        if isinstance(result, Generation):
            active.counts[request.role].add_reply(result)
            if self.dropped and isinstance(request, Generate):
                active.dropped += self.dropped
                return structs.replace(result, dropped=self.dropped, passages=request.passages)
        elif isinstance(result, Score):
            active.counts[request.role].add(result.usage)
        elif isinstance(result, TooLong):
            active.counts[request.role].calls -= 1  # no model read it
        elif (
            isinstance(result, Failed)
            and isinstance(request, Generate | Estimate)
            and not request.may_fail
        ):
            raise CallRefusedError(
                f"A call of {active.tag} was refused in an earlier run or for another plan: "
                f"{result.reason} `winnow ledger prune --failed` deletes refused calls, so that "
                "they are requested again."
            )
        return result


class ActivePlans:
    """The plans in memory.

    Attributes:
        count: Number of plans that run or whose outcomes were not taken yet.
        waiters: Requests that were not looked up yet.
    """

    def __init__(self, stats: RunStats) -> None:
        """Start with no plan. Requests and ended plans are counted in `stats`."""
        self.stats, self.count = stats, 0
        self.waiters: list[Waiter] = []
        self._outcomes: deque[Outcome[Any]] = deque()

    def start(self, job: Job[Any]) -> None:
        """Start the plan of a job."""
        self.count += 1
        self._resume(ActivePlan(job.tag, job.plan, job.engines), None)

    def take_waiters(self) -> list[Waiter]:
        """Return the requests that were not looked up yet, once."""
        waiters, self.waiters = self.waiters, []
        return waiters

    def take_outcome(self) -> Outcome[Any] | None:
        """Return the outcome of a plan that ended, once, or None if there is none."""
        if not self._outcomes:
            return None
        self.count -= 1
        self.stats.plans += 1
        return self._outcomes.popleft()

    def deliver(self, waiter: Waiter, result: Result | TooLong) -> None:
        """Give a result to the waiting plan, and resume it once it has all results of its round."""
        active = waiter.active
        active.requests[waiter.slot] = waiter.request
        active.results[waiter.slot] = waiter.receive(result)
        active.waiting -= 1
        if not active.waiting:
            active.finish_round()
            self._resume(active, active.results)

    def drop_passage(self, waiter: Waiter, reason: str) -> None:
        """Drop a passage from an overlong request, or deliver TooLong to a plan that asked for it.

        Raises:
            PromptTooLongError: If no passage is left to drop.
        """
        request = waiter.request
        shorter = request.drop_passage() if isinstance(request, Generate) else None
        if shorter is not None:
            self.waiters.append(Waiter(waiter.active, waiter.slot, shorter, waiter.dropped + 1))
        elif isinstance(request, Generate) and request.may_be_too_long:
            self.deliver(waiter, TooLong(reason))
        else:
            raise PromptTooLongError(
                f"A prompt for {waiter.active.tag} exceeds the model's context length ({reason}), "
                "and no further passage can be dropped from it. Shorten the prompt, or use a "
                "model with a longer context."
            )

    def _resume(self, active: ActivePlan, results: list[Any] | None) -> None:
        """Resume a plan, or start it if `results` is None, and register its next requests.

        If a plan yields no requests, it is resumed at once with an empty list.
        """
        try:
            while True:
                requests = next(active.plan) if results is None else active.plan.send(results)
                if requests:
                    break
                results = []
        except StopIteration as stop:
            end = describe_stop(active.steps, stop.value)
            self._outcomes.append(
                Outcome(
                    active.tag,
                    stop.value,
                    active.list_usage(),
                    active.dropped,
                    tuple(active.steps),
                    end,
                )
            )
            return
        active.begin_round(requests)
        self.stats.requests += len(requests)
        self.waiters += [Waiter(active, slot, request) for slot, request in enumerate(requests)]
