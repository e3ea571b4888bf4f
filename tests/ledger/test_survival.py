"""What a sweep survives: kill -9 at any moment, another process in the same ledger."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from winnow.keys import compute_request_key
from winnow.ledger.sqlite import SqliteStore
from winnow.readers.openai_chat import OpenAIReader
from winnow.records import Decoding
from winnow.requests import Generate, Message
from winnow.testing.chat_server import ChatServer

PLANS, ROUNDS = 1000, 2
IN_FLIGHT = 4 * 8
"""Calls that the reader may hold at a time: its capacity, four times its concurrency."""
SWEEP = """
import sys
from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.protocols import build_engine_map
from winnow.ledger.sqlite import SqliteStore
from winnow.readers.openai_chat import OpenAIReader
from winnow.readers.pacing import Pacing
from winnow.records import Answer, Decoding
from winnow.requests import Generate, Message

def plan(number):
    text = f"first {number}"
    for _ in range(2):
        (reply,) = yield [Generate((Message("user", text),), Decoding())]
        text = f"then {reply.text}"
    return Answer(reply.text, unknown=False)

url, ledger, table, count = sys.argv[1:]
reader = OpenAIReader("m", "m", url, pacing=Pacing(max_concurrency=8))
with SqliteStore(ledger) as opened:
    driver = Driver(build_engine_map(reader), opened, max_active=100)
    found = driver.run(Job(n, plan(n)) for n in range(int(count)))
    rows = sorted((o.tag, o.result.text, o.usage[0].calls, o.usage[0].tokens_in) for o in found)
open(table, "w").write(repr(rows))
print(driver.stats.executed, driver.stats.external)
"""


def start(url: str, ledger: Path, table: Path, count: int = PLANS) -> "subprocess.Popen[str]":
    """Start a sweep of `count` plans of two rounds in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", SWEEP, url, str(ledger), str(table), str(count)],
        stdout=subprocess.PIPE,
        text=True,
    )


def keys(url: str, count: int = PLANS) -> dict[bytes, str]:
    """The key of every call of the sweep, and its prompt."""
    engine = OpenAIReader("m", "m", url).identity
    prompts = [f"first {n}" for n in range(count)] + [f"then FIRST {n}" for n in range(count)]
    return {
        compute_request_key(engine, Generate((Message("user", p),), Decoding())): p for p in prompts
    }


def test_ten_kills_lose_only_what_was_in_flight(tmp_path: Path) -> None:
    """2,000 calls, killed with -9 at ten random moments: each is in the ledger once, none of those
    is asked again.
    """
    rng = random.Random(13)
    server = ChatServer(latency=0.004)
    ledger = tmp_path / "l.sqlite"
    with server.serve() as url:
        known = keys(url)
        for _ in range(10):
            stored, came = _stored(ledger, known), dict(server.received)
            enough = server.calls + rng.randint(30, 150)
            process = start(url, ledger, tmp_path / "table")
            while server.calls < enough and process.poll() is None:
                time.sleep(0.002)
            time.sleep(rng.random() * 0.05)
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            assert all(server.received[prompt] == came[prompt] for prompt in stored)
        assert start(url, ledger, tmp_path / "table").wait() == 0
        again = server.calls - PLANS * ROUNDS
        assert again <= 10 * IN_FLIGHT
        assert start(url, tmp_path / "undisturbed.sqlite", tmp_path / "undisturbed").wait() == 0
    assert len(_stored(ledger, known)) == PLANS * ROUNDS
    with SqliteStore(ledger) as opened:
        assert len(opened) == PLANS * ROUNDS
    assert (tmp_path / "table").read_text() == (tmp_path / "undisturbed").read_text()
    print(f"10 kills, {PLANS * ROUNDS} calls, {again} made again")


def _stored(ledger: Path, known: dict[bytes, str]) -> set[str]:
    with SqliteStore(ledger) as opened:
        return {known[key] for key in opened.get(list(known))}


def test_two_processes_share_one_ledger(tmp_path: Path) -> None:
    """Both begin the same sweep at once: every call is made by one of them, and both have the whole
    table.
    """
    server = ChatServer(latency=0.005)
    with server.serve() as url:
        both = [start(url, tmp_path / "l.sqlite", tmp_path / f"table{n}", 200) for n in range(2)]
        counts = [tuple(map(int, process.communicate()[0].split())) for process in both]
    assert sum(own for own, _ in counts) == 400
    assert set(server.received.values()) == {1}
    assert (tmp_path / "table0").read_text() == (tmp_path / "table1").read_text()
