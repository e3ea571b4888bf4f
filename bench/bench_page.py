"""Measure the page of flows.report with 10,000 questions in 25 cells: how long it takes to build,
its size, and how it loads.

python -m bench.bench_page

The answers are drawn from 2,000 different ones. Needs Chromium (`apt-get install chromium`).
"""

import random
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from bench._measure import scale
from winnow.records import Question
from winnow.reports.cells import CellResult
from winnow.reports.family import Family
from winnow.reports.page.cases import Texts
from winnow.reports.page.page import Page
from winnow.reports.report import build_report
from winnow.testing import make_cell_result

VIEWS = (
    "view=answer", "view=explore", "view=explore&kind=matrix", "view=tables", "view=outcomes",
    f"view=questions&a={quote('post_fusion k=1 retrieved')}", "view=compare",
)  # fmt: skip
QUESTIONS, CELLS = scale(10_000, 20), 25


def make_cell(number: int) -> CellResult:
    """Build a cell with answers of two words, of which a third is right."""
    rng = random.Random(number)
    cell = make_cell_result(
        "post_fusion",
        number + 1,
        "retrieved",
        [float(rng.random() < 1 / 3) for _ in range(QUESTIONS)],
    )
    samples = [
        replace(
            sample,
            question=Question(
                f"question-{index}", f"What is the answer to the question number {index}?", ("x",)
            ),
            prediction=replace(
                sample.prediction,
                answer=sample.prediction.answer if index % 3 else f"word {rng.randrange(2000)}",
            ),
        )
        for index, sample in enumerate(cell.samples)
    ]
    return replace(cell, samples=samples)


def open_page(chromium: str, file: Path, view: str) -> tuple[float, float, float]:
    """Return the milliseconds until a view is shown, the MB of memory of its script, and the
    seconds from start to exit.
    """
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]
    flags += [
        "--disable-sync",
        "--disable-quic",
        "--enable-precise-memory-info",
        f"--user-data-dir={file.parent / 'profile'}",
    ]
    command = [
        chromium,
        *flags,
        "--virtual-time-budget=20000",
        "--dump-dom",
        f"{file.as_uri()}#{view}",
    ]
    started = time.perf_counter()
    elements = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds = time.perf_counter() - started
    values = {
        name: re.search(rf'data-{name}="(\d+)"', elements) for name in ("milliseconds", "heap")
    }
    found = [float(match.group(1)) if match else float("nan") for match in values.values()]
    return found[0], found[1] / 1e6, seconds


def main() -> None:
    """Print the times and sizes."""
    chromium = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    cells = [make_cell(number) for number in range(CELLS)]
    started = time.perf_counter()
    family = Family(cells, 0)
    text = Page(build_report("bench", family, {}), family, Texts(), {}).render()
    print(
        f"{QUESTIONS:,} questions in {CELLS} cells: built in {time.perf_counter() - started:.1f} "
        f"s, {len(text) / 1e6:.1f} MB"
    )
    if chromium is None:
        print("Skipped the loading: no Chromium here (apt-get install chromium).")
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "index.html"
        file.write_text(text, encoding="utf-8")
        for view in VIEWS:
            milliseconds, heap, seconds = open_page(chromium, file, view)
            share = f"{milliseconds / 2000:.0%} of 2 s"
            print(
                f"{view:45} {milliseconds:6.0f} ms ({share})   {heap:5.0f} MB of memory  "
                f" {seconds:.1f} s in all"
            )


if __name__ == "__main__":
    main()
