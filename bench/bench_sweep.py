"""Measure a sweep of 100,000 questions and two strategies, its replay, and a report of 25 cells:
seconds and peak memory.

python -m bench.bench_sweep

The reader answers at once, so that what is measured is the program: rankings, plans, ledger,
predictions, metrics and comparisons. Every step is a process of its own.
"""

import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench._measure import read_peak_gigabytes, scale
from bench.bench_driver import PROMPT, StatelessReader
from flows.project.metrics import build_metrics
from flows.settings.door import compose
from winnow.artifacts import contracts, parquet
from winnow.artifacts.provenance import write_manifest
from winnow.artifacts.tables import build_passage_rows, build_prediction_row, build_question_rows
from winnow.contexts.distractors import Distractors
from winnow.contexts.placement import Placement
from winnow.contexts.weighting import ContextWeighting
from winnow.driver.run import Driver
from winnow.driver.stats import RunStats
from winnow.ledger.sqlite import SqliteStore
from winnow.predictions import Prediction, RoleUsage
from winnow.protocols import build_engine_map
from winnow.records import Decoding, Passage, Question
from winnow.reports.cells import CellResult
from winnow.reports.columns import collect_in_processes, has_many_predictions
from winnow.reports.family import Family
from winnow.reports.report import build_report
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.post_fusion import PostFusion
from winnow.sweeps.labels import CellLabels
from winnow.sweeps.run import LoadedCell, iter_jobs, load_cells, write_cells
from winnow.sweeps.samples import SampleReader
from winnow.sweeps.spec import CellSpec, QuestionSelection

QUESTIONS, PASSAGES, DEPTH, K, CELLS = scale(100_000, 20), scale(100_000, 40), 20, 5, 25
WORDS = [f"word{number}" for number in range(2000)]


def write_rankings(
    folder: Path, num_questions: int, num_passages: int, depth: int
) -> list[Question]:
    """Write questions, passages of 100 words and random rankings, and return the questions."""
    rng = random.Random(13)
    questions = [
        Question(
            f"question-{n}", f"Question {n}?", (rng.choice(WORDS), "another answer"), split="test"
        )
        for n in range(num_questions)
    ]
    parquet.write(folder / "questions.parquet", contracts.QUESTIONS, build_question_rows(questions))
    passages = (
        Passage(str(n), f"Title {n}", " ".join(rng.choices(WORDS, k=100)))
        for n in range(num_passages)
    )
    (folder / "retrieval").mkdir()
    parquet.write(
        folder / "retrieval/passages.parquet", contracts.CORPUS, build_passage_rows(passages)
    )
    hits = (
        {
            "question_id": question.question_id,
            "rank": rank,
            "passage_id": str(passage),
            "score": 1 / rank,
            "has_answer": not passage % 9,
        }
        for question in questions
        for rank, passage in enumerate(rng.sample(range(num_passages), depth), start=1)
    )
    parquet.write(folder / "retrieval/contexts.parquet", contracts.RETRIEVAL, hits)
    return questions


def prepare(folder: Path) -> None:
    """Write the questions, their rankings and the predictions of the cells of the report."""
    questions = write_rankings(folder, QUESTIONS, PASSAGES, DEPTH)
    rng = random.Random(7)
    for number in range(CELLS):
        spec = make_spec(
            folder, f"report-{number}", CellLabels(f"strategy {number}", K, "retrieved")
        )
        predictions = (
            Prediction(
                question.question_id,
                answer=(
                    answer := (
                        question.answers[0]
                        if rng.random() < 0.3 + number / 100
                        else rng.choice(WORDS)
                    )
                ),
                unknown=False,
                candidates=tuple(rng.choices(WORDS, k=K)),
                reply=answer,
                passage_ids=tuple(str(passage) for passage in range(K)),
                used_ids=tuple(str(passage) for passage in range(K)),
                provenance="distant",
                usage=(RoleUsage("reader", K, rng.randrange(800, 1200), 9),),
            )
            for question in questions
        )
        spec.folder.mkdir()
        parquet.write(
            spec.predictions, contracts.PREDICTIONS, map(build_prediction_row, predictions)
        )
        write_manifest(spec.folder, key=spec.key, settings={}, rows=QUESTIONS)


def make_spec(folder: Path, name: str, labels: CellLabels) -> CellSpec:
    """Build the specification of a cell."""
    strategy = PostFusion if labels.strategy == "post_fusion" else Concatenation
    return CellSpec(
        name,
        folder / name,
        labels,
        {},
        QuestionSelection(folder / "questions.parquet", "test"),
        folder / "retrieval",
        None,
        Distractors(),
        Placement(),
        ContextWeighting(),
        lambda: strategy(PROMPT, Decoding()),
    )


def sweep(folder: Path, label: str) -> None:
    """Run two strategies with the ledger, and print the rate of results."""
    names = ("concatenation", "post_fusion")
    cells = load_cells(
        make_spec(folder, f"{label} {name}", CellLabels(name, K, "retrieved")) for name in names
    )
    started = time.perf_counter()
    stats = answer(folder, cells)
    seconds = time.perf_counter() - started
    print(
        f"{label} of {QUESTIONS} questions in 2 cells: {stats.requests} calls, {stats.executed} "
        f"made, {seconds:.0f} s, {stats.requests / seconds:.0f} results/s, peak memory "
        f"{read_peak_gigabytes():.2f} GB"
    )


def answer(folder: Path, cells: Sequence[LoadedCell]) -> RunStats:
    """Answer the questions of cells with a reader that answers at once, and return the counts."""
    with SqliteStore(folder / "ledger.sqlite") as ledger:
        driver = Driver(build_engine_map(StatelessReader(batch_size=64)), ledger)

        def finish(cell: LoadedCell, rows: int) -> None:
            write_manifest(cell.spec.folder, key=cell.spec.key, settings={}, rows=rows)

        write_cells(cells, driver.run(iter_jobs(cells)), finish)
    return driver.stats


def report(folder: Path, _: str) -> None:
    """Compute the metrics of all cells and build the report, and print the seconds."""
    cfg = compose([])
    metrics = build_metrics(cfg)
    started = time.perf_counter()
    specs = [
        make_spec(folder, f"report-{number}", CellLabels(f"strategy {number}", K, "retrieved"))
        for number in range(CELLS)
    ]
    columns = (
        collect_in_processes(specs, metrics, lambda: None)
        if has_many_predictions(specs, metrics)
        else {}
    )
    reader = SampleReader()
    cells = [
        CellResult(spec.labels, reader.read(spec), metrics, known=columns.get(spec.key))
        for spec in specs
    ]
    assert [cell.num_questions for cell in cells] == [QUESTIONS] * CELLS
    computed = time.perf_counter()
    page = build_report("Winnow", Family(cells, 0), {})
    texts = page.render_html() + page.render_markdown()
    seconds, metric_seconds = time.perf_counter() - started, computed - started
    child_gigabytes = read_peak_gigabytes(resource.RUSAGE_CHILDREN)
    print(
        f"report of {CELLS} cells of {QUESTIONS} questions, {CELLS * (CELLS - 1) // 2} pairs, "
        f"{len(metrics)} metrics: {seconds:.0f} s ({metric_seconds:.0f} s for reading and "
        f"metrics), {CELLS * QUESTIONS / seconds:.0f} results/s, {len(texts) / 1e6:.1f} MB, peak "
        f"memory {read_peak_gigabytes():.2f} GB, and at most {child_gigabytes:.2f} GB in each "
        "process that it started"
    )


STEPS = {"first run": sweep, "replay": sweep, "report": report}


def main() -> None:
    """Run all steps, or with arguments only the one that is named, in a prepared folder."""
    if len(sys.argv) > 1:
        STEPS[sys.argv[1]](Path(sys.argv[2]), sys.argv[1])
        return
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        for step in STEPS:
            subprocess.run([sys.executable, "-m", "bench.bench_sweep", step, name], check=True)


if __name__ == "__main__":
    main()
