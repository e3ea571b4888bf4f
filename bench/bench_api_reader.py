"""Compare the throughput of the API reader, including the ledger, with plain AsyncOpenAI behind a
semaphore.

python -m bench.bench_api_reader

The test server has 20 ms latency and runs in a process of its own. Both run five times in turn, and
the medians are compared.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from openai import AsyncOpenAI

from bench._measure import scale
from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.readers.openai_chat import OpenAIReader
from winnow.readers.pacing import Pacing
from winnow.records import Answer, Decoding
from winnow.requests import Generate, Message, Plan

CALLS, CONCURRENCY, LATENCY_SECONDS, RUNS = scale(2000, 10), 64, 0.02, scale(5)
PASSAGE = "word " * 100


def build_prompt(run: int, number: int) -> str:
    """Return a prompt that no other call of the benchmark has."""
    return f"Answer the question. {PASSAGE} Question {run}-{number}?"


async def run_plain_client(url: str, run: int) -> None:
    """Send all prompts with AsyncOpenAI, at most CONCURRENCY at once."""
    semaphore = asyncio.Semaphore(CONCURRENCY)
    async with AsyncOpenAI(api_key="none", base_url=url) as client:

        async def call(number: int) -> str | None:
            async with semaphore:
                reply = await client.chat.completions.create(
                    model="m",
                    messages=[{"role": "user", "content": build_prompt(run, number)}],
                    max_tokens=16,
                    temperature=0,
                )
                return reply.choices[0].message.content

        await asyncio.gather(*(call(number) for number in range(CALLS)))


def plan_call(text: str) -> Plan[Answer]:
    """Request one reply and return it as the answer."""
    (reply,) = yield [Generate((Message("user", text),), Decoding())]
    return Answer(reply.text, unknown=False)


def run_api_reader(url: str, run: int, ledger: SqliteStore) -> None:
    """Send all prompts with the driver, the API reader and the ledger."""
    reader = OpenAIReader("m", "m", url, pacing=Pacing(max_concurrency=CONCURRENCY))
    driver = Driver(build_engine_map(reader), ledger)
    sum(
        1
        for _ in driver.run(
            Job(number, plan_call(build_prompt(run, number))) for number in range(CALLS)
        )
    )
    reader.close()
    assert driver.stats.executed == CALLS


def main() -> None:
    """Measure both and print the ratio of their medians."""
    command = [
        sys.executable,
        "-m",
        "winnow.testing.chat_server",
        "--latency",
        str(LATENCY_SECONDS),
    ]
    rates: dict[str, list[float]] = {"plain": [], "winnow": []}
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
                (
                    asyncio.run(run_plain_client(url, run))
                    if name == "plain"
                    else run_api_reader(url, run, ledger)
                )
                if run:  # the first run of each is a warm-up
                    rates[name].append(CALLS / (time.perf_counter() - started))
        server.terminate()
    medians = {name: statistics.median(values) for name, values in rates.items()}
    print(
        f"API reader, {CALLS} calls, {CONCURRENCY} at once, {1000 * LATENCY_SECONDS:.0f} ms: "
        f"AsyncOpenAI with a semaphore {medians['plain']:.0f} calls/s, ours with the ledger "
        f"{medians['winnow']:.0f} calls/s: {medians['winnow'] / medians['plain']:.2f} x (medians "
        f"of {RUNS}, interleaved)"
    )


if __name__ == "__main__":
    main()
