"""Training curves: the metrics logged at the optimizer steps, in a file next to the weights."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from winnow.artifacts.files import write_texts

CURVES = "curves.csv"
"""Name of the file. It is not part of an artifact's content, because speeds differ between runs."""
History = Sequence[tuple[int, Mapping[str, float]]]
"""Logged metrics, by name, with the step at which they were logged."""
Curves = Mapping[str, Sequence[tuple[int, float]]]
"""(step, value) of each metric, by its name, in the order of the steps."""


def write_curves(folder: Path, history: History) -> None:
    """Write the metrics that a training logged at its steps, except its summary at step 0.

    A training that was resumed wrote no file before, so that its curves begin where it was resumed.
    """
    rows = [
        (step, name, value) for step, values in history if step for name, value in values.items()
    ]
    if rows:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([("step", "metric", "value"), *rows])
        write_texts(folder, {CURVES: text.getvalue()})


def read_curves(folder: Path) -> Curves:
    """Read the curves of a training; there are none if the folder has no such file."""
    file = folder / CURVES
    curves: dict[str, list[tuple[int, float]]] = {}
    if file.is_file():
        with file.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                curves.setdefault(row["metric"], []).append((int(row["step"]), float(row["value"])))
    return {name: sorted(points) for name, points in curves.items()}
