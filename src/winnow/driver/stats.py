"""Counts of a run of the driver, for progress bars and summaries."""

from collections.abc import Callable
from dataclasses import dataclass, field

from winnow.records import Role
from winnow.requests import Usage


@dataclass(slots=True)
class RunStats:
    """Counts of a run so far.

    Attributes:
        plans: Number of finished plans.
        requests: Number of requests of all plans.
        ledger_hits: Number of requests that were answered from the ledger at once.
        merged: Number of requests that were equal to a request in flight.
        executed: Number of calls that this process made.
        external: Number of calls that another process made for this run.
        usage: Tokens and time of the executed calls, by role and identity of the engine.
    """

    plans: int = 0
    requests: int = 0
    ledger_hits: int = 0
    merged: int = 0
    executed: int = 0
    external: int = 0
    usage: dict[tuple[Role, str], Usage] = field(default_factory=dict)

    @property
    def shared(self) -> float:
        """Return the share (0 to 1) of requests for which this process made no call."""
        return 1 - self.executed / self.requests if self.requests else 0.0


ProgressCallback = Callable[[RunStats], None]
"""A function called with the counts of the run after each finished plan and each finished call."""
