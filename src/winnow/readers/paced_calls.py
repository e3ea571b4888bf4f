"""Calls to a server within its limits, which are retried as long as another attempt may succeed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from winnow.errors import ServerUnavailableError
from winnow.readers.budget import Spending
from winnow.readers.choices import FAILED
from winnow.readers.openai_connection import OpenAIConnection, TextRequest
from winnow.readers.openai_errors import RetryableError
from winnow.readers.pacing import CircuitBreaker, ConcurrencyLimit, Pacing
from winnow.readers.server_preparation import ServerPreparation
from winnow.readers.token_estimates import estimate_max_usage
from winnow.requests import Generation, Score, TooLong, Usage

if TYPE_CHECKING:
    import aiolimiter
    import tenacity

_log = logging.getLogger(__name__)
_LONG_WAIT_SECONDS = 30.0
"""A wait that a server asks for is logged if it is longer than this."""


@dataclass
class PacedCalls:
    """Calls of one reader.

    Args:
        connection: Connection to the server.
        preparation: What is done before the first call.
        pacing: Settings of the concurrency, rate limits, timeouts and retries.
        get_spending: Function that returns what the reader has spent, which readers of one budget
            share.
        is_stopped: Function that returns whether the reader has failed, so that nothing is retried.
    """

    connection: OpenAIConnection
    preparation: ServerPreparation
    pacing: Pacing
    get_spending: Callable[[], Spending]
    is_stopped: Callable[[], bool]
    concurrency: ConcurrencyLimit = field(init=False)
    breaker: CircuitBreaker = field(init=False)

    def __post_init__(self) -> None:
        """Create the limit of calls in flight and the circuit breaker."""
        self.concurrency = ConcurrencyLimit(self.pacing.max_concurrency)
        self.breaker = CircuitBreaker(self.pacing)

    async def run(self, group: list[TextRequest]) -> Sequence[Generation | Score | TooLong]:
        """Make a call, and request those samples again that the server could not complete."""
        results = list(await self._retry(group))
        while failed_indices := [
            index
            for index, result in enumerate(results)
            if isinstance(result, Generation) and result.finish == FAILED
        ]:
            try:
                if self.is_stopped():
                    raise RetryableError("the reader was stopped")
                repeated = await self._retry([group[index] for index in failed_indices])
            except Exception:
                for one in results:
                    if isinstance(one, Generation):
                        self.get_spending().charge_lost_call(one.usage)
                raise
            for index, result in zip(failed_indices, repeated, strict=True):
                lost = results[index]
                assert isinstance(lost, Generation)
                self.get_spending().charge_lost_call(lost.usage)
                results[index] = result
        return results

    async def _retry(self, group: list[TextRequest]) -> Sequence[Generation | Score | TooLong]:
        """Make a call, with up to `max_attempts` failures and `patience` seconds of throttling.

        tenacity is used only after a first failure, because it takes as long as all other local
        work on a call.
        """
        import tenacity

        try:
            return await self._call(group)
        except RetryableError as error:
            first_failure = error
        backoff = tenacity.wait_random_exponential(
            multiplier=self.pacing.initial_wait, max=self.pacing.max_wait
        )
        failures = int(not first_failure.throttled)

        def latest_failure(state: tenacity.RetryCallState) -> RetryableError:
            error = state.outcome.exception() if state.outcome else None
            return error if isinstance(error, RetryableError) else first_failure

        def wait(state: tenacity.RetryCallState) -> float:
            requested_wait = latest_failure(state).after
            return (
                backoff(state) if requested_wait is None else requested_wait + backoff(state) / 10
            )

        def stop(state: tenacity.RetryCallState) -> bool:
            nonlocal failures
            throttled = latest_failure(state).throttled
            failures += state.outcome is not None and not throttled
            is_out_of_patience = (state.seconds_since_start or 0.0) >= self.pacing.patience
            return (
                self.is_stopped()
                or failures >= self.pacing.max_attempts
                or (throttled and is_out_of_patience)
            )

        retrying = tenacity.AsyncRetrying(
            stop=stop,
            wait=wait,
            retry=tenacity.retry_if_exception_type(RetryableError),
            reraise=True,
        )
        initial_state = tenacity.RetryCallState(retrying, None, (), {})
        if stop(initial_state):
            raise first_failure
        await asyncio.sleep(wait(initial_state))
        return await retrying(self._call, group)

    async def _call(self, group: list[TextRequest]) -> Sequence[Generation | Score | TooLong]:
        """Make one attempt, and report its outcome to the concurrency limit and circuit breaker.

        Raises:
            BudgetError: If lost attempts have exceeded the budget.
        """
        spending = self.get_spending()
        if not spending.reserve(Usage()):  # earlier attempts may have been charged
            raise spending.build_budget_error()
        await self._wait_for_limits(group)
        try:
            await self.preparation.wait()
            results = await self.connection.call(group)
        except RetryableError as error:
            if error.billed:
                spending.charge_lost_call(estimate_max_usage(group[0], len(group)))
            self._check_requested_wait(error)
            if error.throttled:
                self.concurrency.halve_limit()
                self.breaker.record_reply()
            else:
                self.preparation.check_again()
                if not self.breaker.failures:
                    _log.warning(
                        "A call to %s failed (%s). Failed calls are retried.", self.address, error
                    )
                self.breaker.record_failure(str(error))
            raise
        except BaseException:
            self.breaker.record_reply()
            raise
        self.breaker.record_reply()
        self.concurrency.raise_limit()
        return results

    def _check_requested_wait(self, error: RetryableError) -> None:
        """Log a long wait that the server asks for; raise an error beyond `pacing.patience`.

        Raises:
            ReaderError: If the wait is longer than `pacing.patience` seconds.
        """
        wait_seconds = error.after or 0.0
        if wait_seconds > self.pacing.patience:
            raise ServerUnavailableError(
                f"{self.address} asks to wait {wait_seconds:.0f} s before the next call "
                f"({error}), which is longer than "
                f"reader.engine.pacing.patience={self.pacing.patience:.0f}. Finished calls are in "
                "the ledger. Run the command again later."
            )
        if wait_seconds > _LONG_WAIT_SECONDS:
            _log.warning(
                "%s asks to wait %.0f s before the next call (%s).",
                self.address,
                wait_seconds,
                error,
            )

    @property
    def address(self) -> str:
        """Address of the server, which a started one has once it runs."""
        return self.connection.protocol.base_url

    async def _wait_for_limits(self, group: list[TextRequest]) -> None:
        """Wait until the circuit breaker and the limits per minute allow a call."""
        await self.breaker.wait()
        request_limiter, token_limiter = self._limiters
        if request_limiter is not None:
            await request_limiter.acquire()
        if token_limiter is not None:
            max_usage = estimate_max_usage(group[0], len(group))
            max_tokens: float = max_usage.tokens_in + max_usage.tokens_out
            while max_tokens > 0:  # more than the capacity is taken in parts
                part = min(max_tokens, token_limiter.max_rate)
                await token_limiter.acquire(part)
                max_tokens -= part

    @cached_property
    def _limiters(self) -> tuple[aiolimiter.AsyncLimiter | None, aiolimiter.AsyncLimiter | None]:
        """Limiters of requests and of tokens per minute; None where there is no limit.

        A limiter lets its whole capacity through at once. So that no minute has more than its rate,
        requests are spaced evenly, and tokens are limited per half a minute.
        """
        from aiolimiter import AsyncLimiter

        num_requests, num_tokens = self.pacing.requests_per_minute, self.pacing.tokens_per_minute
        return (
            None if num_requests is None else AsyncLimiter(1, 60 / num_requests),
            None if num_tokens is None else AsyncLimiter(num_tokens / 2, 30),
        )
