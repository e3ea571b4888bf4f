"""Replays one plan from the ledger, without a model: every prompt and reply of every round, and the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

from winnow.errors import LedgerError
from winnow.keys import request_key
from winnow.protocols import CallStore
from winnow.records import Generate, Plan, Request, Result, Role, T


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it was served, with its result; `dropped` counts the passages that its prompt had to leave out."""

    request: Request
    result: Result
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Replay(Generic[T]):
    """A finished plan with its rounds of calls."""

    rounds: Sequence[Sequence[Call]]
    result: T


def replay(plan: Plan[T], identities: Mapping[Role, str], ledger: CallStore) -> Replay[T]:
    """Run a plan to its end on stored calls.

    Args:
        plan: a fresh one.
        identities: the engines' identities by role.
        ledger: an open store.

    Raises:
        LedgerError: if the ledger lacks a call, with its round and what to run.

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


def _find(request: Request, identities: Mapping[Role, str], ledger: CallStore, number: int) -> Call:
    """Return the stored call of a request, or of its next shorter version, as the driver shortens prompts."""
    identity = identities.get(request.role, "")
    current: Request | None = request
    dropped = 0
    while current is not None:
        key = request_key(identity, current)
        stored = ledger.get([key])
        if stored:
            return Call(current, stored[key], dropped)
        current = current.shortened() if isinstance(current, Generate) else None
        dropped += 1
    raise LedgerError(
        f"The ledger lacks a call of round {number} ({type(request).__name__}, role {request.role!r}, engine "
        f"{identity or 'none'}). Run `python -m flows.sweep` with the same settings first."
    )
