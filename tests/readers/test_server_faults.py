"""What a run does with every fault of tests/readers/server_faults.py."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from server_faults import FAULTS, ODD_FIELDS, Fault

from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.errors import WinnowError
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.readers.openai_chat import OpenAIReader
from winnow.readers.pacing import Pacing
from winnow.records import Answer, Decoding
from winnow.requests import Generate, Message, Plan
from winnow.testing.chat_server import ChatServer

FAST = Pacing(
    max_concurrency=2,
    max_attempts=3,
    initial_wait=0.001,
    max_wait=0.002,
    read_timeout=2,
    cooldown=0.01,
    patience=0.2,
)
PROMPTS = [f"q{number}" for number in range(6)]
FAULTY = ("q1", "q4")


@dataclass
class FaultyServer(ChatServer):
    """Answers the first `times` arrivals of the faulty prompts with a fault."""

    fault: Fault | None = None
    times: int = 1
    faults_sent: list[str] = field(default_factory=list)

    async def _serve_chat(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> bool:
        prompt = body["messages"][-1]["content"]
        if (
            self.fault is None
            or prompt not in FAULTY
            or self.faults_sent.count(prompt) >= self.times
        ):
            return await super()._serve_chat(writer, body)
        self.faults_sent.append(prompt)
        self.received[prompt] += 1
        writer.write(self.fault(self.completion(body)))
        await writer.drain()
        return False


def ask(url: str, path: Path) -> Mapping[object, str]:
    """Return the reply to each prompt."""

    def plan(prompt: str) -> Plan[Answer]:
        (reply,) = yield [Generate((Message("user", prompt),), Decoding())]
        return Answer(reply.text, unknown=False)

    with SqliteStore(path) as ledger:
        reader = OpenAIReader("m", "m", url, pacing=FAST)
        try:
            outcomes = Driver(build_engine_map(reader), ledger).run(
                Job(prompt, plan(prompt)) for prompt in PROMPTS
            )
            return {outcome.tag: outcome.result.text for outcome in outcomes}
        finally:
            reader.close()


@pytest.mark.parametrize("times", [1, 1000], ids=["once", "always"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_reply_is_never_an_answer_and_costs_no_other_call(
    tmp_path: Path, name: str, times: int
) -> None:
    """The run asks again or ends with a named error; with a healthy server, the next run completes
    it.

    Prompts that were answered are not sent again.
    """
    server = FaultyServer(fault=FAULTS[name], times=times)
    right = {prompt: prompt.upper() for prompt in PROMPTS}
    with server.serve() as url:
        with suppress(WinnowError):
            assert ask(url, tmp_path / "l.sqlite") == right
        assert server.faults_sent
        server.fault = None
        assert ask(url, tmp_path / "l.sqlite") == right
    assert set(server.answered.values()) == {1}


@pytest.mark.parametrize("name", ODD_FIELDS)
def test_a_reply_with_an_odd_field_is_kept(tmp_path: Path, name: str) -> None:
    """It was paid and its text is right, so it is the answer; a replay needs no server."""
    server = FaultyServer(fault=ODD_FIELDS[name], times=1000)
    with server.serve() as url:
        assert ask(url, tmp_path / "l.sqlite") == {prompt: prompt.upper() for prompt in PROMPTS}
        assert sorted(server.faults_sent) == sorted(FAULTY)
    assert ask(url, tmp_path / "l.sqlite") == {prompt: prompt.upper() for prompt in PROMPTS}
