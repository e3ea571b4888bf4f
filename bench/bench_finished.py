"""Measure what a finished sweep costs to start again: CPU seconds of one cell, of 16 and of 496
cells, by -m and by a grid.

python -m bench.bench_finished

Passages and questions are synthetic, and a chat server on this machine answers. The baseline is the
run that made the calls. Every command is a process of its own, and the median of three is printed.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench._measure import scale
from winnow.testing.chat_server import ChatServer

ROOT = Path(__file__).resolve().parent.parent
STRATEGIES = ("concatenation", "post_fusion", "pf_concat", "concat_pf")
PLACEMENTS = ("retrieved", "gold_first")
DEPTH = scale(62, 2)
"""Largest number of passages in a prompt; each from one on is a cell."""


def write_files(folder: Path) -> list[str]:
    """Write a corpus and ten questions, and return the settings that read them."""
    passages = [
        {"_id": str(n), "title": f"Town {n}", "text": f"The mayor of town {n} is Mx {n * 7}."}
        for n in range(2 * DEPTH + 10)
    ]
    questions = [
        {"question": f"Who is the mayor of town {n}?", "answer": [f"Mx {n * 7}"]} for n in range(10)
    ]
    for name, rows in (("corpus", passages), ("questions", questions)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return [
        "corpus=beir", "corpus.name=towns", f"corpus.parser.path={folder}/corpus.jsonl",
        "dataset=nq_open", "dataset.name=towns", f"dataset.parser.path={folder}/questions.jsonl",
        "dataset.split.all=test", "answerable.required=[]", "sweep.closed_book_filter=false",
        f"depth={DEPTH}", "sweep.limit=10", "reader=openai", "reader.base=m",
    ]  # fmt: skip


def run(folder: Path, stage: str, words: Sequence[str]) -> float:
    """Run a stage in a folder, and return its CPU seconds."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    environment = {**os.environ, "PYTHONPATH": paths, "OPENAI_API_KEY": "none"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", f"flows.{stage}", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Make the calls of all cells once, then start parts of the sweep again."""
    with tempfile.TemporaryDirectory() as name, ChatServer().serve() as url:
        folder = Path(name)
        own = [*write_files(folder), f"reader.engine.base_url={url}"]
        run(folder, "pipeline", [*own, "pipeline.goal=retrieve"])
        axes = [f"strategy={','.join(STRATEGIES)}", f"placement={','.join(PLACEMENTS)}"]
        ks = ",".join(map(str, range(1, DEPTH + 1)))
        grid = (
            f"grid={{strategy:[{','.join(STRATEGIES)}],placement:[{','.join(PLACEMENTS)}],"
            f"k:[{ks}]}}"
        )
        first = run(folder, "sweep", ["-m", *own, *axes, f"k={ks}"])
        cells = len(STRATEGIES) * len(PLACEMENTS) * DEPTH
        print(f"{cells} cells of 10 questions, with their calls: {first:.1f} CPU seconds")
        for label, words in {
            "1 finished cell": [*own, "strategy=concatenation", "k=1"],
            "16 finished cells, -m": ["-m", *own, *axes, "k=1,2"],
            f"{cells} finished cells, -m": ["-m", *own, *axes, f"k={ks}"],
            f"{cells} finished cells, grid": [*own, grid],
        }.items():
            run(folder, "sweep", words)  # it remembers what MLflow has
            seconds = statistics.median(run(folder, "sweep", words) for _ in range(3))
            print(f"{label}: {seconds:.1f} CPU seconds, {first / seconds:.1f} x", flush=True)


if __name__ == "__main__":
    main()
