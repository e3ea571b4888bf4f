"""Pacing of API calls: adaptive concurrency, limits per minute, and a circuit breaker.

tenacity provides the retries and aiolimiter the limits per minute. The adaptive limit and the breaker are implemented here,
because they share observations: a 429 narrows the gate and does not trip the breaker. Neither library supports this.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import ClassVar

from winnow.errors import ConfigError, ReaderError


@dataclass(frozen=True, slots=True)
class Pacing:
    """Limits, timeouts and retries for calls to one API.

    Args:
        max_concurrency: Maximum number of calls in flight. Throttling halves the limit, and replies raise it again.
        requests_per_minute: Maximum number of requests per minute; None means no limit.
        tokens_per_minute: Maximum number of prompt and reply tokens per minute; None means no limit.
        connect_timeout: Timeout of a connection.
        read_timeout: Timeout of the whole reply.
        max_attempts: Number of failures of a call after which the run stops. The random waits between them grow.
        patience: Seconds for which a throttled call (429, 503) is retried.
        initial_wait: Upper bound of the first wait in seconds. It doubles with every further wait.
        max_wait: Upper bound of every wait in seconds. A server's Retry-After takes precedence.
        failure_threshold: Number of consecutive failures (other than 429 and 503) after which all calls pause.
        cooldown: Duration of the pause in seconds. One call then probes the server.
        max_pauses: Number of pauses without a single reply after which the run stops.

    """

    revision: ClassVar[int] = 1

    max_concurrency: int = 16
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    connect_timeout: float = 10.0
    read_timeout: float = 120.0
    max_attempts: int = 6
    patience: float = 600.0
    initial_wait: float = 1.0
    max_wait: float = 60.0
    failure_threshold: int = 20
    cooldown: float = 30.0
    max_pauses: int = 3

    def __post_init__(self) -> None:
        """Raise ConfigError for limits under which no call is ever made."""
        counts = (self.max_concurrency, self.max_attempts, self.failure_threshold, self.max_pauses)
        rates = [rate for rate in (self.requests_per_minute, self.tokens_per_minute) if rate is not None]
        timeouts = (self.connect_timeout, self.read_timeout)
        pauses = (self.initial_wait, self.max_wait, self.cooldown, self.patience)
        if min(counts) < 1 or min(*timeouts, *rates) <= 0 or min(pauses) < 0:
            raise ConfigError(f"reader.pacing: counts start at 1, times and rates are above 0; received {self}.")


class Gate:
    """Limits the calls in flight by additive increase and multiplicative decrease, as in TCP."""

    def __init__(self, maximum: int) -> None:
        """Start at the maximum."""
        self.maximum = maximum
        self.limit = float(maximum)
        self._narrowed = -1.0

    def widen(self) -> None:
        """Raise the limit after a reply, by one per round of replies."""
        self.limit = min(float(self.maximum), self.limit + 1 / self.limit)

    def narrow(self) -> None:
        """Halve the limit after a throttled reply, but at most once a second, because such replies come in bursts."""
        now = time.monotonic()
        if now - self._narrowed >= 1.0:
            self.limit, self._narrowed = max(1.0, self.limit / 2), now


class Breaker:
    """A circuit breaker that pauses all calls if the server keeps failing, and then lets one call probe it."""

    def __init__(self, pacing: Pacing) -> None:
        """Start closed, so that calls pass."""
        self.pacing = pacing
        self.failures = self.pauses = 0
        self._until: float | None = None
        self._probing = False

    async def wait(self) -> None:
        """Wait until the call may be made."""
        while self._until is not None:
            pause = self._until - time.monotonic()
            if pause <= 0 and not self._probing:
                self._probing = True
                return
            await asyncio.sleep(max(pause, 0.05))

    def record_reply(self) -> None:
        """Close the breaker after a reply."""
        self.failures = self.pauses = 0
        self._until, self._probing = None, False

    def record_failure(self, reason: str) -> None:
        """Record a failure; raise ReaderError if the server has failed through all pauses."""
        self.failures += 1
        if self._until is not None and not self._probing:
            return  # sent before the pause began
        if self._probing or self.failures >= self.pacing.failure_threshold:
            self.pauses += 1
            self._until, self._probing = time.monotonic() + self.pacing.cooldown, False
            if self.pauses >= self.pacing.max_pauses:
                raise ReaderError(
                    f"The server failed {self.failures} times in a row, over {self.pauses} pauses of "
                    f"{self.pacing.cooldown:.0f} s; the last failure: {reason}. Finished calls are in the ledger; run again "
                    "when the server is back."
                )
