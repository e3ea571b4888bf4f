"""Measure how time and memory grow with the numbers of questions, cells, contexts and passages, and
draw them.

python -m bench.bench_growth                   # a quarter of an hour, 4 GB of memory and of disk
python -m bench.bench_growth docs/growth.svg   # draws a plot of each, too

Questions, passages and rankings are synthetic, and the reader answers at once, so that what is
measured is the program. Every point is a process of its own. The exponent is the slope of a
straight line through the logarithms of the larger half of the points: 1 is linear growth. Smaller
points show what does not grow, and memory includes 0.2 to 0.3 GB of imports at any size. More than
40 cells repeat the calls of others.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench._measure import read_peak_gigabytes, scale
from bench.bench_retrieval import iter_texts
from bench.bench_sweep import answer, make_spec, write_rankings
from winnow.retrievers.bm25 import BM25
from winnow.retrievers.tantivy import Tantivy
from winnow.sweeps.labels import CellLabels
from winnow.sweeps.run import load_cells

STRATEGIES = ("concatenation", "post_fusion")


@dataclass(frozen=True, slots=True)
class Point:
    """What one size took.

    Args:
        size: Number of questions, cells, contexts or passages.
        seconds: Wall time.
        gigabytes: Peak memory of the process.
        disk_gigabytes: Size of the files that were written.
    """

    size: int
    seconds: float
    gigabytes: float
    disk_gigabytes: float


def answer_questions(folder: Path, _: int) -> None:
    """Answer questions in two cells with k = 5."""
    _answer(folder, [(name, 5) for name in STRATEGIES])


def answer_cells(folder: Path, size: int) -> None:
    """Answer 100 questions in cells, whose k repeat after 20."""
    _answer(folder, [(STRATEGIES[n % 2], 1 + n // 2 % 20) for n in range(size)])


def answer_contexts(folder: Path, size: int) -> None:
    """Answer 1,000 questions with Post-Fusion, which asks once for each context."""
    _answer(folder, [("post_fusion", size)])


def _answer(folder: Path, cells: Sequence[tuple[str, int]]) -> None:
    """Answer questions whose rankings were written before."""
    specs = (
        make_spec(folder, f"{number}-{name}", CellLabels(name, k, "retrieved"))
        for number, (name, k) in enumerate(cells)
    )
    answer(folder, load_cells(specs))


def index_bm25(folder: Path, size: int) -> None:
    """Index passages of 100 words with bm25s."""
    BM25().build(lambda: iter_texts(size), folder / "index")


def index_tantivy(folder: Path, size: int) -> None:
    """Index passages of 100 words with Tantivy."""
    Tantivy().build(lambda: iter_texts(size), folder / "index")


@dataclass(frozen=True, slots=True)
class Series:
    """A quantity that grows.

    Args:
        title: What is done.
        unit: Name of the quantity.
        run: Function that does it, in a folder.
        sizes: Values of the quantity.
        questions: Number of questions whose rankings are written before, for a size.
        depth: Number of passages of a ranking, for a size.
    """

    title: str
    unit: str
    run: Callable[[Path, int], None]
    sizes: Sequence[int]
    questions: Callable[[int], int] | None = None
    depth: Callable[[int], int] = lambda _: 20


SERIES = {
    "questions": Series(
        "a sweep of two cells",
        "questions",
        answer_questions,
        [scale(n, 4) for n in (100, 1000, 10_000, 30_000, 100_000)],
        lambda size: size,
    ),
    "cells": Series(
        "a sweep of 100 questions",
        "cells",
        answer_cells,
        [scale(n, 2) for n in (1, 10, 50, 150, 500)],
        lambda _: 100,
    ),
    "contexts": Series(
        "Post-Fusion over 1,000 questions",
        "contexts a question",
        answer_contexts,
        [scale(n, 1) for n in (1, 5, 20, 50, 100)],
        lambda _: scale(1000, 10),
        lambda size: size,
    ),
    "bm25s": Series(
        "an index of retriever=bm25",
        "passages",
        index_bm25,
        [scale(n, 100) for n in (10_000, 30_000, 100_000, 300_000, 1_000_000)],
    ),
    "tantivy": Series(
        "an index of retriever=tantivy",
        "passages",
        index_tantivy,
        [scale(n, 100) for n in (10_000, 100_000, 300_000, 1_000_000, 3_000_000)],
    ),
}


def measure(name: str, size: int) -> Point:
    """Measure one size in a process of its own."""
    series = SERIES[name]
    with tempfile.TemporaryDirectory(dir=os.environ.get("WINNOW_BENCH_FOLDER")) as folder:
        if series.questions is not None:
            write_rankings(Path(folder), series.questions(size), 20_000, series.depth(size))
        before = _measure_disk(Path(folder))
        command = [sys.executable, "-m", "bench.bench_growth", "point", name, str(size), folder]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        seconds, gigabytes = json.loads(done.stdout)
        return Point(size, seconds, gigabytes, _measure_disk(Path(folder)) - before)


def _measure_disk(folder: Path) -> float:
    """Return the size of a folder in GB."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**30


def fit_exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of the logarithms of values over the larger half of the sizes."""
    start = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[start:]), np.log(values[start:]), 1)[0])


def draw(rows: Sequence[dict[str, object]], file: Path) -> None:
    """Save a plot of time and one of memory for each series."""
    import altair as alt

    log = alt.Scale(type="log")
    sizes = alt.Axis(tickCount=4, format="~s", grid=False)
    amounts = alt.Axis(tickCount=4, format="~g", grid=False)

    def plot(title: str, column: str, label: str) -> Any:
        own = [row for row in rows if row["series"] == title]
        unit = str(own[0]["unit"])
        return (
            alt.Chart(alt.InlineData(values=own), title=title, width=220, height=140)
            .mark_line(point=True)
            .encode(
                alt.X("size:Q", scale=log, axis=sizes, title=unit),
                alt.Y(f"{column}:Q", scale=log, axis=amounts, title=label),
            )
        )

    titles = dict.fromkeys(str(row["series"]) for row in rows)
    chart = alt.vconcat(
        *(
            alt.hconcat(plot(title, "seconds", "seconds"), plot(title, "gigabytes", "GB of memory"))
            for title in titles
        )
    )
    chart.save(str(file))


def main(words: Sequence[str]) -> None:
    """Measure all sizes, or the one that is named."""
    if words[:1] == ["point"]:
        _, named, number, folder = words
        started = time.perf_counter()
        SERIES[named].run(Path(folder), int(number))
        print(json.dumps([time.perf_counter() - started, read_peak_gigabytes()]))
        return
    rows: list[dict[str, object]] = []
    for name, series in SERIES.items():
        points = []
        for size in dict.fromkeys(series.sizes):
            points.append(point := measure(name, size))
            print(
                f"{series.title}, {point.size} {series.unit}: {point.seconds:.2f} s, "
                f"{point.gigabytes:.2f} GB of memory, {point.disk_gigabytes:.2f} GB of disk",
                flush=True,
            )
            rows.append({"series": series.title, "unit": series.unit, **asdict(point)})
        if len(points) > 2:
            sizes = [point.size for point in points]
            print(
                f"  exponents: time {fit_exponent(sizes, [p.seconds for p in points]):.2f}, "
                f"memory {fit_exponent(sizes, [p.gigabytes for p in points]):.2f}, "
                f"disk {fit_exponent(sizes, [p.disk_gigabytes for p in points]):.2f}"
            )
    if words:
        draw(rows, Path(words[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
