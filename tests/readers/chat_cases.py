"""Requests, plans and a sweep of one reader."""

from pathlib import Path

from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.readers.openai_chat import OpenAIReader
from winnow.readers.pacing import Pacing
from winnow.records import Answer, Decoding
from winnow.requests import Generate, Message, Plan
from winnow.steps import Outcome

FAST = Pacing(
    initial_wait=0.01, max_wait=0.05, read_timeout=0.4, connect_timeout=0.4, cooldown=0.05
)


def request(text: str, decoding: Decoding | None = None, sample: int = 0) -> Generate:
    return Generate((Message("user", text),), decoding or Decoding(), sample)


def plan(*requests: Generate) -> Plan:
    """A plan of one round."""
    replies = yield list(requests)
    return Answer(",".join(f"{r.text}/{r.finish}" for r in replies), unknown=False)


def sweep(
    reader: OpenAIReader, path: Path, plans: list[Plan]
) -> tuple[dict[object, Outcome], Driver]:
    """Run plans with a ledger; the reader is closed in any case."""
    with SqliteStore(path) as ledger:
        driver = Driver(build_engine_map(reader), ledger)
        try:
            return {o.tag: o for o in driver.run(Job(n, p) for n, p in enumerate(plans))}, driver
        finally:
            reader.close()
