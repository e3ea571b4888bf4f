"""Replays a plan from the ledger, without a model, and records the prompts and replies of each round and the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

from winnow.errors import LedgerError
from winnow.keys import request_key
from winnow.protocols import CallStore
from winnow.records import Generate, Plan, Request, Result, Role, T


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it was served, with its result. `dropped` is the number of passages that were left out of the prompt."""

    request: Request
    result: Result
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Replay(Generic[T]):
    """The result of a finished plan, with its calls by round."""

    rounds: Sequence[Sequence[Call]]
    result: T


def replay(plan: Plan[T], identities: Mapping[Role, str], ledger: CallStore) -> Replay[T]:
    """Run a plan to its end with stored results.

    Args:
        plan: Plan that has not been started.
        identities: Identity of the engine of each role.
        ledger: Open store.

    Raises:
        LedgerError: If the ledger lacks a call. The message names its round and the command to run.

    """
    rounds: list[list[Call]] = []
    results: list[Result] | None = None
    while True:
        try:
            requests = next(plan) if results is None else plan.send(results)
        except StopIteration as stop:
            return Replay(rounds, stop.value)
        rounds.append([_find(request, identities, ledger, len(rounds) + 1) for request in requests])
        results = [call.result for call in rounds[-1]]


def _find(request: Request, identities: Mapping[Role, str], ledger: CallStore, round_number: int) -> Call:
    """Find the stored call of a request or, because the driver shortens long prompts, of its longest shortened version."""
    identity = identities.get(request.role, "")
    candidate: Request | None = request
    dropped = 0
    while candidate is not None:
        key = request_key(identity, candidate)
        results = ledger.get([key])
        if results:
            return Call(candidate, results[key], dropped)
        candidate = candidate.shortened() if isinstance(candidate, Generate) else None
        dropped += 1
    raise LedgerError(
        f"The ledger lacks a call of round {round_number} ({type(request).__name__}, role {request.role!r}, engine "
        f"{identity or 'none'}). Run `python -m flows.sweep` with the same settings first."
    )
