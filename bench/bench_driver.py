"""What sharing saves over a script per cell, how fast a finished sweep replays, and how much memory the driver needs.

python -m bench.bench_driver
"""

import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from flows._build import build
from winnow.contexts.placement import Placement
from winnow.driver import Driver, Job
from winnow.ledger.sqlite import SqliteStore
from winnow.metrics.base import Sample, rows_by_metric
from winnow.protocols import Strategy, engines_for
from winnow.records import Answer, Decoding, Generate, Generation, PlacedContexts, Question, Usage
from winnow.strategies.closed_book import ClosedBook
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.post_fusion import PostFusion
from winnow.strategies.prompt import Prompt
from winnow.sweeps.run import build_prediction
from winnow.testing import METRICS, ScriptedReader, context, question

CONF = Path(__file__).resolve().parent.parent / "conf"


def load_node(name: str) -> DictConfig:
    """Return a config file of conf/."""
    node = OmegaConf.load(CONF / name)
    assert isinstance(node, DictConfig)
    return node


PROMPT: Prompt = build(load_node("prompt/post_fusion.yaml"))
NAMES = ("concatenation", "post_fusion", "pruning", "summary", "concat_pf", "pf_concat")
STRATEGIES = [build(load_node(f"strategy/{n}.yaml").plan, prompt=PROMPT, decoding=Decoding()) for n in NAMES]
QUESTIONS, DEPTH, KS = 200, 100, (5, 10, 20)
Cell = tuple[Question, PlacedContexts]


class Forgetful(ScriptedReader):
    """Answers at once and keeps nothing."""

    def _answer(self, request: Generate) -> Generation:
        prompt = request.messages[-1].content
        return Generation(("unknown", "a", "b", "c")[zlib.crc32(prompt.encode()) % 4], usage=Usage(100, 2))


def table_1(kept: dict[object, Cell]) -> Iterator[Job[Answer]]:
    """Six strategies, three k, with and without the gold passage; half of the gold passages rank below 20."""
    for number in range(QUESTIONS):
        query = question(f"Question {number}?", question_id=str(number))
        gold = 3 + number % 37
        contexts = [context(n, f"{number} {n} " + "word " * 100, is_gold=n == gold) for n in range(1, DEPTH + 1)]
        for strategy, name in zip(STRATEGIES, NAMES, strict=True):
            for k in KS:
                for rule in ("keep", "insert"):
                    tag = (number, name, k, rule)
                    placed = Placement(gold=rule).place(query, contexts, k)
                    kept[tag] = (query, placed)
                    yield Job(tag, strategy.plan(query, placed.contexts))


def sharing(folder: Path) -> None:
    with SqliteStore(folder / "table.sqlite") as ledger:
        for label in ("the whole table-1 grid", "its replay"):
            kept: dict[object, Cell] = {}
            driver = Driver(engines_for(Forgetful(batch=64)), ledger)
            started = time.perf_counter()
            outcomes = list(driver.run(table_1(kept)))
            middle = time.perf_counter()
            samples = [Sample(kept[o.tag][0], build_prediction(*kept[o.tag], o)) for o in outcomes]
            rows_by_metric(METRICS, samples)
            tally = driver.tally
            print(
                f"{label}, {QUESTIONS} questions: {tally.requests} calls without sharing, {tally.executed} made "
                f"({100 * tally.executed / tally.requests:.0f} %); {tally.requests / (middle - started):.0f} results/s, "
                f"driver {middle - started:.2f} s, metrics {time.perf_counter() - middle:.2f} s"
            )


def replay(folder: Path, count: int = 20_000) -> None:
    """Post-Fusion over twenty passages each, no call shared."""
    strategy = PostFusion(PROMPT, Decoding())
    questions = [question(f"Question {number}?", question_id=str(number)) for number in range(count // 20)]
    placed = [[context(n, f"{q.text} {n} " + "word " * 100) for n in range(1, 21)] for q in questions]
    with SqliteStore(folder / "replay.sqlite") as ledger:
        for label in ("first run", "replay"):
            driver = Driver(engines_for(Forgetful(batch=64)), ledger)
            jobs = (Job(q.question_id, strategy.plan(q, contexts)) for q, contexts in zip(questions, placed, strict=True))
            started = time.perf_counter()
            sum(1 for _ in driver.run(jobs))
            seconds = time.perf_counter() - started
            print(f"{label} of {driver.tally.requests} distinct calls: {driver.tally.requests / seconds:.0f} results/s")


def small_cells(count: int) -> Iterator[Job[Answer]]:
    """Five cells a question."""
    strategies: list[Strategy] = [ClosedBook(PROMPT, Decoding()), *[Concatenation(PROMPT, Decoding())] * 3]
    strategies.append(PostFusion(PROMPT, Decoding()))
    for number in range(count):
        query = question(f"Question {number}?", question_id=str(number))
        contexts = [context(n, f"{number} {n} " + "word " * 20) for n in (1, 2, 3)]
        for cell, (strategy, k) in enumerate(zip(strategies, (0, 1, 2, 3, 3), strict=True)):
            yield Job((cell, number), strategy.plan(query, contexts[:k]))


def memory(count: int) -> None:
    """Run in a process of its own: prints the peak of resident memory."""
    with tempfile.TemporaryDirectory() as folder, SqliteStore(Path(folder) / "l.sqlite") as ledger:
        started = time.perf_counter()
        plans = sum(1 for _ in Driver(engines_for(Forgetful(batch=64)), ledger).run(small_cells(count)))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{count} questions x 5 cells: {plans} plans in {time.perf_counter() - started:.0f} s, peak memory {peak:.2f} GB"
        )


def main() -> None:
    if len(sys.argv) > 1:
        memory(int(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        sharing(Path(folder))
        replay(Path(folder))
    for count in (10_000, 100_000):
        subprocess.run([sys.executable, "-m", "bench.bench_driver", str(count)], check=True)


if __name__ == "__main__":
    main()
