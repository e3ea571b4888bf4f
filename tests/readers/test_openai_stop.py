"""Readers of servers that are stopped, because a run ends with an error elsewhere."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.readers import batch_cases
from tests.readers.chat_cases import FAST, request
from winnow.errors import StoppedError
from winnow.readers.openai_chat import OpenAIReader
from winnow.testing.chat_server import ChatServer


def test_a_stopped_reader_returns_the_replies_on_their_way_and_sends_nothing_more() -> None:
    """Two of six calls were sent; the error comes behind their replies."""
    server = ChatServer(latency=0.3)
    assert sorted(_stop_after_two_calls(server, 6)) == ["Q0", "Q1"]
    assert len(server.received) == 2


def test_a_refusal_after_a_stop_does_not_hide_it() -> None:
    """The first error counts; the other reply is kept."""
    server = ChatServer(
        fault_rule=lambda prompt, _: "refuse" if prompt == "q1" else None,
        extra_latency=lambda _: 0.3,
    )
    assert _stop_after_two_calls(server, 2) == ["Q0"]


def _stop_after_two_calls(server: ChatServer, number: int) -> list[str]:
    """Submit requests, stop the reader while the first two are in flight, and return the texts of
    all replies before the error that says so.
    """
    texts = []
    with server.serve() as url:
        reader = OpenAIReader("m", "m", url, pacing=replace(FAST, max_concurrency=2))
        reader.submit([request(f"q{n}") for n in range(number)])
        while len(server.received) < 2:
            time.sleep(0.01)
        reader.stop()
        with pytest.raises(StoppedError):
            for _ in range(20):
                texts += [one.text for _, one in reader.collect(1.0)]  # type: ignore[union-attr]
        reader.close()
    return texts


def test_a_stopped_reader_leaves_its_batch_to_the_next_run(tmp_path: Path) -> None:
    """Which collects it without sending it again."""
    server = ChatServer(num_polls=2)
    with server.serve() as url:
        first = batch_cases.reader(url, tmp_path)
        first.submit([batch_cases.request("q")])
        assert first.collect(0.0) == []
        first.stop()
        with pytest.raises(StoppedError):
            first.collect(5.0)
        first.close()
        outcomes, _ = batch_cases.sweep(
            batch_cases.reader(url, tmp_path), tmp_path, [batch_cases.plan("q")]
        )
    assert outcomes[0].result.text == "Q"
    assert server.received["q"] == 1
