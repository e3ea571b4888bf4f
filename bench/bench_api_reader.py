"""The API reader with its ledger against bare AsyncOpenAI with a semaphore, on a server with 20 ms latency.

python -m bench.bench_api_reader

Both run interleaved, five times; the medians are compared. The server is a process of its own.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from openai import AsyncOpenAI

from winnow.driver import Driver, Job
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import engines_for
from winnow.readers.openai_chat import OpenAIReader
from winnow.readers.pacing import Pacing
from winnow.records import Answer, Decoding, Generate, Message, Plan

CALLS, CONCURRENCY, LATENCY, RUNS = 2000, 64, 0.02, 5
PASSAGE = "word " * 100


def prompt(run: int, number: int) -> str:
    return f"Answer the question. {PASSAGE} Question {run}-{number}?"


async def bare(url: str, run: int) -> None:
    gate = asyncio.Semaphore(CONCURRENCY)
    async with AsyncOpenAI(api_key="none", base_url=url) as client:

        async def call(number: int) -> str | None:
            async with gate:
                reply = await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": prompt(run, number)}], max_tokens=16, temperature=0
                )
                return reply.choices[0].message.content

        await asyncio.gather(*(call(number) for number in range(CALLS)))


def plan(text: str) -> Plan[Answer]:
    (reply,) = yield [Generate((Message("user", text),), Decoding())]
    return Answer(reply.text, unknown=False)


def ours(url: str, run: int, ledger: SqliteStore) -> None:
    reader = OpenAIReader("m", "m", url, pacing=Pacing(max_concurrency=CONCURRENCY))
    driver = Driver(engines_for(reader), ledger)
    sum(1 for _ in driver.run(Job(number, plan(prompt(run, number))) for number in range(CALLS)))
    reader.close()
    assert driver.tally.executed == CALLS


def main() -> None:
    command = [sys.executable, "-m", "winnow.testing.chat_server", "--latency", str(LATENCY)]
    rates: dict[str, list[float]] = {"bare": [], "ours": []}
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        tempfile.TemporaryDirectory() as folder,
        SqliteStore(Path(folder) / "l.sqlite") as ledger,
    ):
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        for run in range(RUNS + 1):
            for name in rates:
                started = time.perf_counter()
                asyncio.run(bare(url, run)) if name == "bare" else ours(url, run, ledger)
                if run:  # the first of each warms up
                    rates[name].append(CALLS / (time.perf_counter() - started))
        server.terminate()
    medians = {name: statistics.median(replies) for name, replies in rates.items()}
    print(
        f"API reader, {CALLS} calls, {CONCURRENCY} at once, {1000 * LATENCY:.0f} ms: AsyncOpenAI with a semaphore "
        f"{medians['bare']:.0f} calls/s, ours with the ledger {medians['ours']:.0f} calls/s: "
        f"{medians['ours'] / medians['bare']:.2f} x (medians of {RUNS}, interleaved)"
    )


if __name__ == "__main__":
    main()
