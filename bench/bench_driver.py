"""Measure the calls saved by sharing them between cells, the speed of replaying a finished sweep,
and the driver's memory.

A cell is one combination of a strategy, k and a placement of the contexts.

python -m bench.bench_driver
"""

import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from bench._measure import read_peak_gigabytes, scale
from flows.settings.components import Component
from winnow.contexts.placed import PlacedContexts
from winnow.contexts.placement import Placement
from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.ledger.sqlite import SqliteStore
from winnow.metrics.base import Sample, compute_rows
from winnow.protocols import Strategy, build_engine_map
from winnow.records import Answer, Decoding, Question
from winnow.requests import Generate, Generation, Usage
from winnow.strategies.closed_book import ClosedBook
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.post_fusion import PostFusion
from winnow.strategies.prompt import Prompt
from winnow.sweeps.run import build_prediction
from winnow.testing import METRICS, ScriptedReader, make_context, make_question

CONF = Path(__file__).resolve().parent.parent / "conf"


def load(name: str) -> dict[str, Any]:
    """Load a file of conf/."""
    settings: dict[str, Any] = yaml.safe_load((CONF / name).read_text())
    return settings


PROMPT: Prompt = Component(load("prompt/post_fusion.yaml")).build()
NAMES = ("concatenation", "post_fusion", "pruning", "summary", "concat_pf", "pf_concat")
STRATEGIES: list[Strategy] = [
    Component(load(f"strategy/{name}.yaml")["plan"]).build(prompt=PROMPT, decoding=Decoding())
    for name in NAMES
]
QUESTIONS, DEPTH, KS = scale(200, 2), 100, (5, 10, 20)
Case = tuple[Question, PlacedContexts]
"""A question with the contexts that a cell shows the reader."""


class StatelessReader(ScriptedReader):
    """A reader that answers at once and does not record the requests."""

    def _generate(self, request: Generate) -> Generation:
        prompt = request.messages[-1].content
        return Generation(
            ("unknown", "a", "b", "c")[zlib.crc32(prompt.encode()) % 4], usage=Usage(100, 2)
        )


def iter_table_1_jobs(cases: dict[object, Case]) -> Iterator[Job[Answer]]:
    """Yield the jobs of six strategies, three k and two placements, and store the case of each job
    by its tag.

    Half of the gold passages rank below 20.
    """
    for number in range(QUESTIONS):
        query = make_question(f"Question {number}?", question_id=str(number))
        gold = 3 + number % 37
        contexts = [
            make_context(n, f"{number} {n} " + "word " * 100, is_gold=n == gold)
            for n in range(1, DEPTH + 1)
        ]
        for strategy, name in zip(STRATEGIES, NAMES, strict=True):
            for k in KS:
                for rule in ("keep", "insert"):
                    tag = (number, name, k, rule)
                    placed = Placement(gold=rule).place(query, contexts, k)
                    cases[tag] = (query, placed)
                    yield Job(tag, strategy.plan(query, placed.contexts))


def measure_sharing(folder: Path) -> None:
    """Run the grid of table 1 twice with one ledger, and print the share of calls that
    were made.
    """
    with SqliteStore(folder / "table.sqlite") as ledger:
        for label in ("the whole table-1 grid", "its replay"):
            cases: dict[object, Case] = {}
            driver = Driver(build_engine_map(StatelessReader(batch_size=64)), ledger)
            started = time.perf_counter()
            outcomes = list(driver.run(iter_table_1_jobs(cases)))
            driver_seconds = time.perf_counter() - started
            started = time.perf_counter()
            samples = [
                Sample(cases[outcome.tag][0], build_prediction(*cases[outcome.tag], outcome))
                for outcome in outcomes
            ]
            compute_rows(METRICS, samples)
            metric_seconds = time.perf_counter() - started
            stats = driver.stats
            print(
                f"{label}, {QUESTIONS} questions: {stats.requests} calls without sharing, "
                f"{stats.executed} made ({100 * stats.executed / stats.requests:.0f} %); "
                f"{stats.requests / driver_seconds:.0f} results/s, driver {driver_seconds:.2f} s, "
                f"metrics {metric_seconds:.2f} s"
            )


def measure_replay(folder: Path, num_calls: int = scale(20_000, 20), times: int = 3) -> None:
    """Run Post-Fusion over twenty passages per question, without shared calls, and replay it; print
    the best rates.
    """
    strategy = PostFusion(PROMPT, Decoding())
    questions = [
        make_question(f"Question {number}?", question_id=str(number))
        for number in range(num_calls // 20)
    ]
    placed = [
        [make_context(n, f"{q.text} {n} " + "word " * 100) for n in range(1, 21)] for q in questions
    ]
    rates: dict[str, list[float]] = {"first run": [], "replay": []}
    for number in range(times):
        with SqliteStore(folder / f"replay{number}.sqlite") as ledger:
            for label in rates:
                driver = Driver(build_engine_map(StatelessReader(batch_size=64)), ledger)
                jobs = (
                    Job(q.question_id, strategy.plan(q, contexts))
                    for q, contexts in zip(questions, placed, strict=True)
                )
                started = time.perf_counter()
                sum(1 for _ in driver.run(jobs))
                rates[label].append(driver.stats.requests / (time.perf_counter() - started))
    for label, measured in rates.items():
        print(
            f"{label} of {num_calls} distinct calls, the best of {times}: {max(measured):.0f} "
            "results/s"
        )


def iter_small_jobs(num_questions: int) -> Iterator[Job[Answer]]:
    """Yield the jobs of five cells for each question."""
    strategies: list[Strategy] = [
        ClosedBook(PROMPT, Decoding()),
        *[Concatenation(PROMPT, Decoding())] * 3,
    ]
    strategies.append(PostFusion(PROMPT, Decoding()))
    for number in range(num_questions):
        query = make_question(f"Question {number}?", question_id=str(number))
        contexts = [make_context(n, f"{number} {n} " + "word " * 20) for n in (1, 2, 3)]
        for cell, (strategy, k) in enumerate(zip(strategies, (0, 1, 2, 3, 3), strict=True)):
            yield Job((cell, number), strategy.plan(query, contexts[:k]))


def measure_memory(num_questions: int) -> None:
    """Run small jobs and print the peak memory of this process, which must not have run anything
    else.
    """
    with tempfile.TemporaryDirectory() as folder, SqliteStore(Path(folder) / "l.sqlite") as ledger:
        started = time.perf_counter()
        num_plans = sum(
            1
            for _ in Driver(build_engine_map(StatelessReader(batch_size=64)), ledger).run(
                iter_small_jobs(num_questions)
            )
        )
        seconds = time.perf_counter() - started
        print(
            f"{num_questions} questions x 5 cells: {num_plans} plans in {seconds:.0f} s, peak "
            f"memory {read_peak_gigabytes():.2f} GB"
        )


def main() -> None:
    """Run all measurements, or with an argument only that of the memory for as many questions."""
    if len(sys.argv) > 1:
        measure_memory(int(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        measure_sharing(Path(folder))
        measure_replay(Path(folder))
    for num_questions in (scale(10_000), scale(100_000)):
        subprocess.run([sys.executable, "-m", "bench.bench_driver", str(num_questions)], check=True)


if __name__ == "__main__":
    main()
