"""Pacing of API calls: settings, an adaptive limit on concurrent calls, and a circuit breaker.

tenacity provides the retries and aiolimiter the limits per minute. The adaptive limit and the
circuit breaker are implemented here, because neither library lets them share observations: a reply
with HTTP 429 (too many requests) lowers the limit but does not count as a failure of the server.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt

from winnow.errors import ServerUnavailableError
from winnow.identity.values import check_values


@dataclass(frozen=True, slots=True)
class Pacing:
    """Settings of the concurrency, rate limits, timeouts and retries of calls to one API.

    Args:
        max_concurrency: Maximum number of calls in flight. A throttled call (HTTP 429 or 503)
            halves the current limit, and replies raise it again.
        requests_per_minute: Maximum number of requests per minute; None means no limit.
        tokens_per_minute: Maximum number of prompt and reply tokens per minute; None means no
            limit.
        connect_timeout: Timeout for connecting to the server, in seconds.
        read_timeout: Timeout for receiving the whole reply, in seconds.
        max_attempts: Number of failures of a call after which the run stops. Throttled attempts do
            not count.
        patience: Seconds for which a throttled call is retried. The run stops if the server asks
            for a longer wait.
        initial_wait: Upper bound of the random wait before the first retry, in seconds. It doubles
            with every further retry.
        max_wait: Upper bound of every random wait, in seconds. A server's Retry-After header takes
            precedence.
        failure_threshold: Number of consecutive failures, not counting throttled calls, after which
            all calls pause.
        cooldown: Duration of a pause in seconds. After it, a single call probes the server.
        max_pauses: Number of consecutive pauses after which the run stops. A reply resets the
            count.
    """

    revision: ClassVar[int] = 1

    max_concurrency: Annotated[int, Ge(1)] = 16
    requests_per_minute: Annotated[float, Gt(0)] | None = None
    tokens_per_minute: Annotated[float, Gt(0)] | None = None
    connect_timeout: Annotated[float, Gt(0)] = 10.0
    read_timeout: Annotated[float, Gt(0)] = 120.0
    max_attempts: Annotated[int, Ge(1)] = 6
    patience: Annotated[float, Ge(0)] = 600.0
    initial_wait: Annotated[float, Ge(0)] = 1.0
    max_wait: Annotated[float, Ge(0)] = 60.0
    failure_threshold: Annotated[int, Ge(1)] = 20
    cooldown: Annotated[float, Ge(0)] = 30.0
    max_pauses: Annotated[int, Ge(1)] = 3

    def __post_init__(self) -> None:
        check_values("reader.engine.pacing", self)


class ConcurrencyLimit:
    """An adaptive limit on calls in flight: additive increase, multiplicative decrease, as in TCP.

    Attributes:
        limit: Current limit, between 1 and `max_concurrency`. Its integer part is the number of
            calls allowed.
    """

    def __init__(self, max_concurrency: int) -> None:
        """Start with a limit of `max_concurrency`."""
        self.max_concurrency = max_concurrency
        self.limit = float(max_concurrency)
        self._last_halved = -1.0

    def raise_limit(self) -> None:
        """Raise the limit after a reply. As many replies as the limit raise it by about one."""
        self.limit = min(float(self.max_concurrency), self.limit + 1 / self.limit)

    def halve_limit(self) -> None:
        """Halve the limit after throttling, which comes in bursts, but at most once a second."""
        now = time.monotonic()
        if now - self._last_halved >= 1.0:
            self.limit, self._last_halved = max(1.0, self.limit / 2), now


class CircuitBreaker:
    """A circuit breaker that pauses all calls if the server keeps failing, then lets one probe it.

    Attributes:
        failures: Number of consecutive failures.
        pauses: Number of consecutive pauses.
    """

    def __init__(self, pacing: Pacing) -> None:
        """Start without a pause."""
        self.pacing = pacing
        self.failures = self.pauses = 0
        self._paused_until: float | None = None
        self._is_probing = False

    async def wait(self) -> None:
        """Wait until the pause is over. The first call after it probes the server; others wait."""
        while self._paused_until is not None:
            remaining_seconds = self._paused_until - time.monotonic()
            if remaining_seconds <= 0 and not self._is_probing:
                self._is_probing = True
                return
            await asyncio.sleep(max(remaining_seconds, 0.05))

    def record_reply(self) -> None:
        """Reset the counts and end the pause, because the server replied."""
        self.failures = self.pauses = 0
        self._paused_until, self._is_probing = None, False

    def record_failure(self, reason: str) -> None:
        """Count a failure, and start a pause if there were too many.

        Args:
            reason: Reason of the failure, for the error message.

        Raises:
            ReaderError: If `max_pauses` pauses have begun without a reply between them.
        """
        self.failures += 1
        if self._paused_until is not None and not self._is_probing:
            return  # the failed call was sent before the pause began
        if self._is_probing or self.failures >= self.pacing.failure_threshold:
            self.pauses += 1
            self._paused_until, self._is_probing = time.monotonic() + self.pacing.cooldown, False
            if self.pauses >= self.pacing.max_pauses:
                raise ServerUnavailableError(
                    f"The server failed {self.failures} times in a row, over {self.pauses} pauses "
                    f"of {self.pacing.cooldown:.0f} s. The last failure was: {reason}. Finished "
                    "calls are in the ledger. Run the command again when the server is "
                    "available."
                )
