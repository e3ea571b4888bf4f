"""Compare sweeps with what a user would run instead: a script of transformers and bm25s, and
FlashRAG where a checkout is given. Wall time, CPU time, peak memory and equal answers.

python -m bench.bench_peers            # after `make demo`
python -m bench.bench_peers retrieval  # only index and rankings, next to bm25s and Tantivy
FLASHRAG=checkout FLASHRAG_PYTHON=python python -m bench.bench_peers

All read the same passages with the same model, the reader that the quick start fine-tuned, and
prompts. The commands take turns, each a process of its own that starts with the files of corpus and
questions. Nothing is fetched. FLASHRAG_PYTHON is an interpreter with FlashRAG's requirements, by
default this one.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import yaml

from bench._measure import scale
from bench.bench_runtimes import find_model

ROOT = Path(__file__).resolve().parent.parent
CELL_QUESTIONS, GRID_QUESTIONS = scale(30, 2), scale(10, 2)
STRATEGIES = ("concatenation", "post_fusion", "pf_concat", "concat_pf")
MAX_NEW_TOKENS = 16
PATHS = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
"""Environment in which another folder runs this checkout's code."""

_START = """
import json, resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as file:
    json.dump([used.ru_utime + used.ru_stime, used.ru_maxrss], file)
sys.exit(code)
"""
"""Program that starts a command and writes its CPU time and peak memory. It is small, because the
system counts the memory of the process that starts a command as the command's, too.
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command took.

    Args:
        seconds: Wall time.
        cpu_seconds: CPU time of all cores.
        gigabytes: Peak memory of its largest process.
    """

    seconds: float
    cpu_seconds: float
    gigabytes: float


@dataclass(frozen=True, slots=True)
class Task:
    """Cells that are answered by one command.

    Args:
        label: Name in the table.
        cells: Strategies with the number of passages, which is 0 for closed book.
        questions: Number of questions.
        continues: Whether Winnow starts with what the task before left. The peers have nothing that
            they could continue.
    """

    label: str
    cells: Sequence[tuple[str, int]]
    questions: int
    continues: bool = False


def list_tasks() -> list[Task]:
    """Return single cells, the grid of 13 cells, and the grid with four cells more. The first cell
    includes the conversion of the model for OpenVINO.
    """
    grid = [("closed_book", 0), *((strategy, k) for strategy in STRATEGIES for k in (1, 5, 10))]
    more = [*grid, *((strategy, 3) for strategy in STRATEGIES)]
    return [
        Task("the model's first cell, k = 1", [("concatenation", 1)], CELL_QUESTIONS),
        Task("a cell, k = 1", [("concatenation", 1)], CELL_QUESTIONS),
        Task("a cell, k = 5", [("concatenation", 5)], CELL_QUESTIONS),
        Task("a grid of 13 cells", grid, GRID_QUESTIONS),
        Task("the grid and four cells more", more, GRID_QUESTIONS, continues=True),
        Task("the same again", more, GRID_QUESTIONS, continues=True),
    ]


def measure(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Cost:
    """Run a command in a folder."""
    file = folder / "cost.json"
    started = time.perf_counter()
    with (folder / "log.txt").open("a") as log:
        done = subprocess.run(
            [sys.executable, "-S", "-c", _START, str(file), *command],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    if done.returncode:
        sys.exit(f"{command} failed:\n{(folder / 'log.txt').read_text()[-3000:]}")
    cpu_seconds, kilobytes = json.loads(file.read_text())
    return Cost(time.perf_counter() - started, cpu_seconds, kilobytes / 2**20)


def write_files(folder: Path, model: str) -> dict[str, object]:
    """Write the quick start's passages, all its questions and the first ones of the test split, and
    return what the peers are told.
    """
    (corpus,) = (ROOT / "data/corpus").glob("vital-*/passages.parquet")
    rows = pq.read_table(corpus).to_pylist()
    with (folder / "corpus.jsonl").open("w") as file:
        for row in rows:
            passage = {"id": row["passage_id"], "title": row["title"], "text": row["text"]}
            file.write(json.dumps({**passage, "contents": f"{row['title']}\n{row['text']}"}) + "\n")
    tables = map(pq.read_table, (ROOT / "data/questions").glob("trivia-*/questions.parquet"))
    questions = max(tables, key=len).to_pylist()
    first = [row for row in questions if row["split"] == "test"]
    first = first[: max(CELL_QUESTIONS, GRID_QUESTIONS)]
    for name, selected in (("questions", first), ("all_questions", questions)):
        lines = [
            json.dumps({"question": row["question"], "answers": row["answers"]}) for row in selected
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    templates = yaml.safe_load((ROOT / "conf/prompt/post_fusion.yaml").read_text())
    return {
        "model": model,
        "corpus": str(folder / "corpus.jsonl"),
        "questions": [row["question"] for row in first],
        "templates": templates,
        "max_new_tokens": MAX_NEW_TOKENS,
    }


def compare_retrieval(files: Path, spec: Mapping[str, object]) -> None:
    """Index the passages and retrieve 100 for each question of the quick start, with the libraries
    alone and as stages, and then again.
    """
    lines = (files / "all_questions.jsonl").read_text().splitlines()
    questions = [json.loads(line)["question"] for line in lines]
    for retriever, library in (("bm25", "bm25s"), ("tantivy", "tantivy")):
        peer, own = files / library, files / f"winnow-{retriever}"
        peer.mkdir()
        own.mkdir()
        file = peer / "specification.json"
        task = {"k": 100, "questions": questions, "answers": str(peer / "rankings.json")}
        file.write_text(json.dumps({**spec, **task}))
        script = [sys.executable, str(ROOT / "bench/_peers.py"), library, str(file)]
        bare = measure(script, peer, {})
        words = [
            *_build_inputs(files, "all_questions"),
            "reader=smollm2",
            f"retriever={retriever}",
            "depth=100",
        ]
        first = measure(_build_command("pipeline", [*words, "pipeline.goal=retrieve"]), own, PATHS)
        again = measure(_build_command("retrieve", words), own, PATHS)
        print(
            f"index and rankings, retriever={retriever}: Winnow {_format(first)}, again "
            f"{_format(again)}; {library} alone {_format(bare)}: "
            f"{first.cpu_seconds / bare.cpu_seconds:.2f} x its CPU time",
            flush=True,
        )


def _build_inputs(files: Path, questions: str) -> list[str]:
    """Return the settings that read the passages and questions."""
    return [
        "corpus=jsonl", f"corpus.parser.path={files}/corpus.jsonl", "corpus.parser.title=title",
        "corpus.parser.id=id", "dataset=jsonl", f"dataset.parser.path={files}/{questions}.jsonl",
        "answerable.required=[]",
    ]  # fmt: skip


def _build_command(stage: str, words: Sequence[str]) -> list[str]:
    """Return the command of a stage."""
    return [sys.executable, "-m", f"flows.{stage}", *words]


def run_winnow(
    folder: Path, files: Path, model: str, task: Task
) -> tuple[Cost, list[dict[str, str]]]:
    """Run a pipeline that ends with the sweep, and return the answers of each cell by question."""
    strategies = list(dict.fromkeys(strategy for strategy, _ in task.cells))
    ks = sorted({k for _, k in task.cells if k})
    words = [
        *_build_inputs(files, "questions"), "reader=folder", f"reader.base={model}",
        f"decoding.max_new_tokens={MAX_NEW_TOKENS}", "sweep.closed_book_filter=false",
        f"sweep.limit={task.questions}", f"depth={max(ks)}", "pipeline.goal=sweep",
        f"grid={{strategy:[{','.join(strategies)}],k:[{','.join(map(str, ks))}]}}",
    ]  # fmt: skip
    cost = measure(_build_command("pipeline", words), folder, PATHS)
    (table,) = (folder / "data/questions").glob("*/questions.parquet")
    texts = {row["question_id"]: row["question"] for row in pq.read_table(table).to_pylist()}
    answers = {}
    for file in (folder / "data/predictions").glob("*/manifest.json"):
        settings = json.loads(file.read_text())["settings"]
        cell = settings["name"], settings["inputs"].get("k", 0)
        rows = pq.read_table(file.with_name("predictions.parquet")).to_pylist()
        answers[cell] = {texts[row["question_id"]]: row["answer"] for row in rows}
    return cost, [answers[cell] for cell in task.cells]


def run_peer(
    name: str, folder: Path, spec: Mapping[str, object], task: Task
) -> tuple[Cost, list[dict[str, str]]]:
    """Run the script of a peer, and return the answers of each cell by question."""
    questions = list(spec["questions"])[: task.questions]  # type: ignore[call-overload]
    file = folder / "specification.json"
    own = {"cells": task.cells, "questions": questions, "answers": str(folder / "answers.json")}
    file.write_text(json.dumps({**spec, **own}))
    python, paths = sys.executable, ""
    if name == "flashrag":
        python, paths = os.environ.get("FLASHRAG_PYTHON", python), os.environ["FLASHRAG"]
    command = [python, str(ROOT / "bench/_peers.py"), name, str(file)]
    cost = measure(command, folder, {"PYTHONPATH": paths})
    answers = json.loads((folder / "answers.json").read_text())
    return cost, [dict(zip(questions, cell, strict=True)) for cell in answers]


def main() -> None:
    """Measure every task with Winnow and its peers, and print the ratios."""
    model = find_model()
    if model.endswith(".gguf") or not list((ROOT / "data/corpus").glob("vital-*")):
        print("Skipped: needs the quick start's passages and fine-tuned reader. Run `make demo`.")
        return
    peers = ["transformers", *(["flashrag"] if os.environ.get("FLASHRAG") else [])]
    with tempfile.TemporaryDirectory() as name:
        files = Path(name)
        spec = write_files(files, model)
        compare_retrieval(files, spec)
        if sys.argv[1:] == ["retrieval"]:
            return
        own = files
        for number, task in enumerate(list_tasks()):
            if not task.continues:
                own = files / f"winnow-{number}"
                own.mkdir()
                if number:  # the converted model
                    (own / "assets").symlink_to(files / "winnow-0/assets")
            ours, answers = run_winnow(own, files, model, task)
            print(f"{task.label}, {task.questions} questions: Winnow {_format(ours)}", flush=True)
            for peer in peers:
                folder = files / f"{peer}-{number}"
                folder.mkdir()
                theirs, replies = run_peer(peer, folder, spec, task)
                pairs = [
                    (answer.lower(), other[question].lower())
                    for cell, other in zip(answers, replies, strict=True)
                    for question, answer in cell.items()
                ]
                equal = sum(left == right for left, right in pairs) / len(pairs)
                print(
                    f"  {peer} {_format(theirs)}: {theirs.seconds / ours.seconds:.2f} x the time, "
                    f"{theirs.cpu_seconds / ours.cpu_seconds:.2f} x the CPU time, "
                    f"{ours.gigabytes / theirs.gigabytes:.2f} of its memory here; "
                    f"{100 * equal:.0f} % of {len(pairs)} answers are equal",
                    flush=True,
                )


def _format(cost: Cost) -> str:
    """Format a cost."""
    return f"{cost.seconds:.1f} s, {cost.cpu_seconds:.1f} CPU-s, {cost.gigabytes:.2f} GB"


if __name__ == "__main__":
    main()
