"""Requests, plans, a reader of batches and its sweep."""

from pathlib import Path

from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.readers.budget import Budget
from winnow.readers.openai_batch import OpenAIBatchReader
from winnow.records import Answer, Decoding
from winnow.requests import Generate, Message, Plan
from winnow.steps import Outcome


def request(text: str) -> Generate:
    return Generate((Message("user", text),), Decoding())


def plan(*texts: str) -> Plan:
    """One round a text, so that the second depends on the first."""
    replies = []
    for text in texts:
        replies += yield [request(text)]
    return Answer(",".join(r.text for r in replies), unknown=False)


def reader(url: str, folder: Path, budget: Budget | None = None) -> OpenAIBatchReader:
    return OpenAIBatchReader(
        "m", "m", url, state=str(folder / "batches"), poll_seconds=0.01, budget=budget or Budget()
    )


def send(engine: OpenAIBatchReader, *texts: str) -> None:
    """Send a batch of requests, as a process does that ends before it polls."""
    engine.submit([request(text) for text in texts])
    engine._queue._send([])


def sweep(
    engine: OpenAIBatchReader, folder: Path, plans: list[Plan]
) -> tuple[dict[object, Outcome], Driver]:
    with SqliteStore(folder / "l.sqlite") as ledger:
        driver = Driver(build_engine_map(engine), ledger)
        try:
            return {o.tag: o for o in driver.run(Job(n, p) for n, p in enumerate(plans))}, driver
        finally:
            engine.close()
