"""Questions on which two rules of a metric differ, such as exact match in SQuAD and CRAG's code."""

import math
from collections.abc import Sequence

import numpy as np

from winnow.metrics.base import Metric
from winnow.reports.cells import CellResult
from winnow.reports.tables import TableView

MAX_ROWS = 50
"""Maximum number of questions per table."""
_MAX_CHARACTERS = 120


def build_dialect_tables(cells: Sequence[CellResult]) -> list[TableView]:
    """Build a table of the questions on which rules differ for each metric with several rules.

    Rules of one metric are metrics with the same title and different dialects. A question is in the
    table once for each cell in which its values differ; where one rule leaves it undefined, it is
    not.
    """
    groups: dict[str, list[Metric]] = {}
    for metric in cells[0].metrics:
        if hasattr(metric, "dialect"):
            groups.setdefault(metric.title, []).append(metric)
    tables = []
    for title, metrics in groups.items():
        if len(metrics) > 1:
            differing = [
                (cell, index) for cell in cells for index in _find_differences(cell, metrics)
            ]
            if differing:
                count = (
                    f"The first {MAX_ROWS} of {len(differing)}"
                    if len(differing) > MAX_ROWS
                    else str(len(differing))
                )
                rows = [_build_row(cell, index, metrics) for cell, index in differing[:MAX_ROWS]]
                total = sum(cell.num_questions for cell in cells)
                caption = (
                    f"{count} of {total} answers in all cells have another value by another rule."
                )
                columns = [
                    "strategy",
                    "k",
                    "gold",
                    "question",
                    "reply",
                    "accepted",
                    *(metric.heading for metric in metrics),
                ]
                tables.append(
                    TableView(
                        f"Answers on which the rules of {title} differ", caption, columns, rows
                    )
                )
    return tables


def _find_differences(cell: CellResult, metrics: Sequence[Metric]) -> list[int]:
    """Return the indices of the samples of a cell for which metrics have different values."""
    values = np.stack([cell.compute_values(metric.name) for metric in metrics])
    indices: list[int] = np.flatnonzero(np.fmax.reduce(values) > np.fmin.reduce(values)).tolist()
    return indices


def _build_row(cell: CellResult, index: int, metrics: Sequence[Metric]) -> list[str]:
    """Build the row of one sample."""
    labels, sample = cell.labels, cell.samples[index]
    texts = (
        sample.prediction.reply or sample.prediction.answer,
        "; ".join(sample.question.answers),
    )
    values = [float(cell.compute_values(metric.name)[index]) for metric in metrics]
    numbers = [
        "" if math.isnan(value) else metric.format_value(value)
        for metric, value in zip(metrics, values, strict=True)
    ]
    return [
        labels.line,
        str(labels.k),
        labels.gold,
        sample.question.question_id,
        *map(_shorten, texts),
        *numbers,
    ]


def _shorten(text: str) -> str:
    """Return a text on one line, with an ellipsis if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_CHARACTERS else line[: _MAX_CHARACTERS - 1] + "…"
