"""Pacing of API calls: adaptive concurrency, limits per minute, and a circuit breaker.

Retries are tenacity's and the limits per minute aiolimiter's. The adaptive limit and the breaker are ours, because they
share their observations (a 429 narrows the gate and does not trip the breaker), which neither library supports.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from winnow.errors import ConfigError, ReaderError


@dataclass(frozen=True, slots=True)
class Pacing:
    """Limits of one API.

    Args:
        concurrency: calls in flight at most; throttling halves it, every reply widens it again.
        requests_per_minute: None means no limit.
        tokens_per_minute: prompt and reply together; None means no limit.
        connect_seconds: timeout of a connection.
        read_seconds: timeout of the whole reply.
        attempts: failures of a call after which the run stops; the random waits between them grow.
        patience: seconds for which a throttled call (429, 503) is retried.
        first_wait: upper bound of the first wait, in seconds; it doubles from then on.
        longest_wait: upper bound of the later ones; a server's Retry-After takes precedence.
        trip: failures in a row (not 429 or 503) after which all calls pause.
        cooldown: seconds of that pause; then one call probes the server.
        openings: pauses without a single reply after which the run stops.

    """

    concurrency: int = 16
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    connect_seconds: float = 10.0
    read_seconds: float = 120.0
    attempts: int = 6
    patience: float = 600.0
    first_wait: float = 1.0
    longest_wait: float = 60.0
    trip: int = 20
    cooldown: float = 30.0
    openings: int = 3

    def __post_init__(self) -> None:
        """Refuse limits under which no call is ever made."""
        counts = (self.concurrency, self.attempts, self.trip, self.openings)
        spans = (
            self.connect_seconds,
            self.read_seconds,
            *(x for x in (self.requests_per_minute, self.tokens_per_minute) if x),
        )
        if min(counts) < 1 or min(spans) <= 0 or min(self.first_wait, self.longest_wait, self.cooldown, self.patience) < 0:
            raise ConfigError(f"reader.pacing: counts start at 1, times and rates are above 0; received {self}.")


class Gate:
    """How many calls may be in flight: additive increase, multiplicative decrease, as in TCP."""

    def __init__(self, maximum: int) -> None:
        """Start wide open."""
        self.maximum = maximum
        self.limit = float(maximum)
        self._narrowed = -1.0

    def widen(self) -> None:
        """Record a reply: the limit grows by one per round of replies."""
        self.limit = min(float(self.maximum), self.limit + 1 / self.limit)

    def narrow(self) -> None:
        """Record a throttled reply: halve the limit, at most once a second because they come in bursts."""
        now = time.monotonic()
        if now - self._narrowed >= 1.0:
            self.limit, self._narrowed = max(1.0, self.limit / 2), now


class Breaker:
    """A circuit breaker: pauses all calls when the server only fails, then lets one probe it."""

    def __init__(self, pacing: Pacing) -> None:
        """Start closed: calls pass."""
        self.pacing = pacing
        self.failures = self.openings = 0
        self._until: float | None = None
        self._probing = False

    async def wait(self) -> None:
        """Wait until this call may be made."""
        while self._until is not None:
            pause = self._until - time.monotonic()
            if pause <= 0 and not self._probing:
                self._probing = True
                return
            await asyncio.sleep(max(pause, 0.05))

    def record_reply(self) -> None:
        """Record a reply: close the breaker."""
        self.failures = self.openings = 0
        self._until, self._probing = None, False

    def record_failure(self, reason: str) -> None:
        """Record a failure; raise ReaderError once the server has failed through all pauses."""
        self.failures += 1
        if self._until is not None and not self._probing:
            return  # sent before the pause began
        if self._probing or self.failures >= self.pacing.trip:
            self.openings += 1
            self._until, self._probing = time.monotonic() + self.pacing.cooldown, False
            if self.openings >= self.pacing.openings:
                raise ReaderError(
                    f"The server failed {self.failures} times in a row, over {self.openings} pauses of "
                    f"{self.pacing.cooldown:.0f} s; the last failure: {reason}. Finished calls are in the ledger; run again "
                    "when the server is back."
                )
