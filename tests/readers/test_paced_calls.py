"""Calls within the limits of a server, and their repetition."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.readers.chat_cases import FAST, plan, request, sweep
from tests.readers.test_openai_chat import FAULTS
from winnow.errors import BudgetError, ConfigError, ReaderError
from winnow.predictions import Price
from winnow.readers.budget import Budget, Spending
from winnow.readers.choices import FAILED
from winnow.readers.openai_chat import OpenAIReader
from winnow.readers.openai_errors import RetryableError
from winnow.readers.paced_calls import PacedCalls
from winnow.readers.pacing import Pacing
from winnow.readers.token_estimates import estimate_max_usage
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Usage
from winnow.testing.chat_server import ChatServer, Fault


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failure_is_tried_again_until_it_is_answered(tmp_path: Path, fault: Fault) -> None:
    """Twelve prompts, each failing twice: all are answered, each came three times, each is stored
    once.
    """
    server = ChatServer(fault_rule=lambda _, time: fault if time <= 2 else None)
    with server.serve() as url:
        reader = OpenAIReader("m", "m", url, pacing=replace(FAST, failure_threshold=100))
        outcomes, driver = sweep(
            reader, tmp_path / "l.sqlite", [plan(request(f"q{n}")) for n in range(12)]
        )
    assert {o.result.text for o in outcomes.values()} == {f"Q{n}/stop" for n in range(12)}
    assert set(server.received.values()) == {3}
    assert driver.stats.executed == 12


def test_a_probe_that_is_throttled_or_refused_hangs_nothing(tmp_path: Path) -> None:
    """Failures pause the calls; the probe then meets a 503, later calls an answer; or a refusal
    ends the run.
    """
    pacing = Pacing(
        max_concurrency=2,
        failure_threshold=2,
        cooldown=0.05,
        initial_wait=0.01,
        max_wait=0.05,
        max_pauses=5,
    )
    faults: list[Fault | None] = ["500", "500", "503", "503", None]
    server = ChatServer(fault_rule=lambda *_: faults.pop(0) if len(faults) > 1 else faults[0])
    with server.serve() as url:
        outcomes, _ = sweep(
            OpenAIReader("m", "m", url, pacing=pacing),
            tmp_path / "l.sqlite",
            [plan(request(f"q{n}")) for n in range(6)],
        )
        assert len(outcomes) == 6
        faults[:] = ["500", "500", "refuse"]
        with pytest.raises(ReaderError, match="HTTP 401"):
            sweep(
                OpenAIReader("m", "m", url, pacing=pacing),
                tmp_path / "l.sqlite",
                [plan(request(f"r{n}")) for n in range(6)],
            )


def test_a_throttled_call_is_tried_for_as_long_as_patience_lasts(tmp_path: Path) -> None:
    """Twelve 429s are no failures of a call that may fail three times; without patience the run
    ends.
    """
    server = ChatServer(fault_rule=lambda _, time: "429" if time <= 12 else None)
    quick = Pacing(max_attempts=3, initial_wait=0.001, max_wait=0.002)
    with server.serve() as url:
        assert (
            len(
                sweep(
                    OpenAIReader("m", "m", url, pacing=quick),
                    tmp_path / "l.sqlite",
                    [plan(request("q"))],
                )[0]
            )
            == 1
        )
        impatient = Pacing(max_attempts=3, patience=0.0, initial_wait=0.001)
        with pytest.raises(ReaderError, match="HTTP 429"):
            sweep(
                OpenAIReader("m", "m", url, pacing=impatient),
                tmp_path / "l.sqlite",
                [plan(request("r"))],
            )


def test_a_server_that_only_fails_ends_the_run(tmp_path: Path) -> None:
    """A call's attempts run out, or the breaker gives up; the message says what failed last."""
    with (
        ChatServer(fault_rule=lambda *_: "500").serve() as url,
        pytest.raises(ReaderError, match="HTTP 500"),
    ):
        sweep(OpenAIReader("m", "m", url, pacing=FAST), tmp_path / "l.sqlite", [plan(request("q"))])
    with pytest.raises(ReaderError, match="connection failed"):
        sweep(
            OpenAIReader("m", "m", "http://127.0.0.1:9/v1", pacing=FAST),
            tmp_path / "l.sqlite",
            [plan(request("q"))],
        )


def test_concurrency_is_bounded_and_used(tmp_path: Path) -> None:
    """Sixty calls of 20 ms, eight at a time."""
    server = ChatServer(latency=0.02)
    with server.serve() as url:
        reader = OpenAIReader("m", "m", url, pacing=Pacing(max_concurrency=8))
        sweep(reader, tmp_path / "l.sqlite", [plan(request(f"q{n}")) for n in range(60)])
    assert server.max_concurrency == 8


def test_requests_a_minute_are_kept(tmp_path: Path) -> None:
    """Ten a second, evenly: the twelfth is made after 1.1 seconds. A rate below one a minute, as of
    a shard, serves its first call.
    """
    server = ChatServer()
    with server.serve() as url:
        reader = OpenAIReader("m", "m", url, pacing=Pacing(requests_per_minute=600))
        started = time.monotonic()
        sweep(reader, tmp_path / "l.sqlite", [plan(request(f"q{n}")) for n in range(12)])
        assert time.monotonic() - started > 1.0
        slow = OpenAIReader("m", "m", url, pacing=Pacing(requests_per_minute=0.5))
        sweep(slow, tmp_path / "l.sqlite", [plan(request("another"))])
    assert server.calls == 13


def test_lost_calls_are_not_repeated_beyond_the_budget(tmp_path: Path) -> None:
    """Each may have been billed, so that the next attempt counts as a new call: there are three."""
    server = ChatServer(fault_rule=lambda *_: "malformed")
    with server.serve() as url:
        once = estimate_max_usage(request("q"), 1)
        tokens = 3 * (once.tokens_in + once.tokens_out)
        reader = OpenAIReader("m", "m", url, pacing=FAST, budget=Budget(tokens=tokens))
        with pytest.raises(BudgetError, match="exceed the budget"):
            sweep(reader, tmp_path / "l.sqlite", [plan(request("q"))])
    assert sum(server.received.values()) == 3


def test_a_lost_call_is_charged_to_the_budget_that_readers_share(tmp_path: Path) -> None:
    """The budget is given to a reader after it was made, as by the runs of a project."""
    server = ChatServer(fault_rule=lambda _, attempt: "malformed" if attempt == 1 else None)
    with server.serve() as url:
        reader = OpenAIReader("m", "m", url, pacing=FAST)
        shared = reader.spending = Spending(Budget(), Price())
        sweep(reader, tmp_path / "l.sqlite", [plan(request("q"))])
    once = estimate_max_usage(request("q"), 1)
    assert shared.spent.tokens_out > once.tokens_out


def test_a_sample_that_the_server_could_not_complete_is_requested_alone() -> None:
    """The other samples of its call are kept, and what it may have cost counts."""
    sent: list[list[int]] = []

    class Connection:
        """A server that fails at two samples, and then at one of them again."""

        protocol = SimpleNamespace(base_url="http://127.0.0.1:9/v1")

        async def call(self, group: Sequence[Generate]) -> list[Generation]:
            sent.append([one.sample for one in group])
            lost = {1: {1, 2}, 2: {1}}.get(len(sent), set())
            return [
                Generation(
                    f"{one.sample}",
                    FAILED if one.sample in lost else "stop",
                    usage=Usage(1, 5),
                )
                for one in group
            ]

    async def prepare() -> None:
        """Do nothing."""

    spending, stopped = Spending(Budget(), Price()), [False]
    calls = PacedCalls(
        Connection(),  # type: ignore[arg-type]
        SimpleNamespace(wait=prepare),  # type: ignore[arg-type]
        FAST,
        lambda: spending,
        lambda: stopped[0],
    )
    group = [request("q", Decoding(temperature=0.7, samples=3), n) for n in range(3)]
    results = asyncio.run(calls.run(group))
    assert [one.text for one in results] == ["0", "1", "2"]  # type: ignore[union-attr]
    assert {one.finish for one in results} == {"stop"}  # type: ignore[union-attr]
    assert sent == [[0, 1, 2], [1, 2], [1]]
    assert spending.spent == Usage(3, 15)
    sent.clear()
    stopped[0] = True
    with pytest.raises(RetryableError):
        asyncio.run(calls.run(group))
    assert sent == [[0, 1, 2]]
    assert spending.spent == Usage(6, 30)


def test_the_version_is_checked_again_after_a_failure(tmp_path: Path) -> None:
    """A server that was replaced meanwhile has no part in the results; one that has only failed
    goes on.
    """
    faults: list[Fault | None] = [None, "500"]
    server = ChatServer(fault_rule=lambda *_: faults.pop(0) if faults else None)
    with server.serve() as url:
        reader = OpenAIReader("m", "m", url, pacing=FAST, dialect="vllm", version="1.2.3")
        one = [plan(request("q0")), plan(request("q1"))]
        assert len(sweep(reader, tmp_path / "l.sqlite", one)[0]) == 2
        faults[:] = [None, "500"]

        def replace_server(prompt: str) -> str:
            server.version = "2.0.0"
            return prompt

        server.reply = replace_server
        reader = OpenAIReader(
            "m", "m", url, pacing=replace(FAST, max_concurrency=1), dialect="vllm", version="1.2.3"
        )
        with pytest.raises(ConfigError, match=r"has version 2\.0\.0"):
            sweep(reader, tmp_path / "l.sqlite", [plan(request("r0")), plan(request("r1"))])


def test_no_minute_has_more_tokens_than_its_rate() -> None:
    """A limiter lets its capacity through at once, and then its rate."""
    reader = OpenAIReader("m", "m", "http://127.0.0.1:1/v1", pacing=Pacing(tokens_per_minute=1000))
    _, limiter = reader._calls._limiters
    assert limiter is not None
    rate = limiter.max_rate / limiter.time_period
    assert limiter.max_rate + 30 * rate == 1000, "at once, and in the half minute after it"
