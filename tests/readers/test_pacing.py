"""The gate that adapts and the breaker that pauses."""

import asyncio

import pytest

from winnow.errors import ConfigError, ReaderError
from winnow.readers.pacing import CircuitBreaker, ConcurrencyLimit, Pacing


def test_the_gate_halves_once_a_burst_and_widens_by_one_a_round() -> None:
    """16, throttled: 8, and still 8 for the rest of the burst; eight answers later 9; never over 16
    or under 1.
    """
    gate = ConcurrencyLimit(16)
    gate.halve_limit()
    gate.halve_limit()
    assert gate.limit == 8
    for _ in range(8):
        gate.raise_limit()
    assert gate.limit == pytest.approx(9, abs=0.1)
    for _ in range(400):
        gate.raise_limit()
    assert gate.limit == 16
    for _ in range(9):
        gate._last_halved = -1.0
        gate.halve_limit()
    assert gate.limit == 1


def test_the_breaker_pauses_probes_and_gives_up() -> None:
    """Three failures pause; one probe goes ahead while the others wait; failing through two pauses
    ends the run.
    """

    async def story() -> None:
        breaker = CircuitBreaker(Pacing(failure_threshold=3, cooldown=0.05, max_pauses=2))
        for _ in range(3):
            await breaker.wait()
            breaker.record_failure("HTTP 500")
        breaker.record_failure("HTTP 500")  # it was under way before the pause
        await breaker.wait()
        waiting = asyncio.ensure_future(breaker.wait())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        breaker.record_reply()
        await asyncio.wait_for(waiting, 1)
        assert (breaker.failures, breaker.pauses) == (0, 0)
        for _ in range(3):
            breaker.record_failure("HTTP 500")
        await breaker.wait()
        with pytest.raises(ReaderError, match=r"failed 4 times in a row, over 2 pauses.*HTTP 500"):
            breaker.record_failure("HTTP 500")

    asyncio.run(story())


def test_limits_under_which_nothing_is_asked_are_refused() -> None:
    """By what was received."""
    for bad in ({"max_concurrency": 0}, {"read_timeout": 0}, {"requests_per_minute": -1}):
        with pytest.raises(ConfigError, match=f"{next(iter(bad))} must be"):
            Pacing(**bad)  # type: ignore[arg-type]
