"""The spread of a metric over training seeds, apart from its intervals over questions."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from winnow.metrics.intervals import UNDEFINED
from winnow.reports.cells import CellResult, TableView, unit_scale


def seeds_table(cells: Sequence[CellResult], seed: int) -> TableView | None:
    """Build a table of mean, standard deviation and range over training seeds, or return None if no cell has several.

    Args:
        cells: Cells; those that differ only in their training seed are one row.
        seed: Seed of the intervals, as in the other tables.

    """
    groups: dict[object, list[CellResult]] = {}
    for cell in cells:
        if cell.labels.seed:
            groups.setdefault(replace(cell.labels, seed="", code=""), []).append(cell)
    trained = [_on_common_questions(group) for group in groups.values() if len({cell.labels.seed for cell in group}) > 1]
    if not trained:
        return None
    metrics = [metric for metric in cells[0].metrics if metric.unit == "percent"]
    rows = []
    for group in trained:
        labels = replace(group[0].labels, seed="")
        seeds = ", ".join(cell.labels.seed for cell in group)
        row = [labels.line, str(labels.k), labels.gold, seeds, str(len(group[0].samples))]
        for metric in metrics:
            intervals = [cell.interval(metric.name, seed) for cell in group]
            values = unit_scale(metric) * np.array([interval.mean for interval in intervals if interval.n])
            row.append(_spread(values) if len(values) > 1 else UNDEFINED)
        rows.append(row)
    caption = (
        "mean, standard deviation and range over trainings of each training's value on the questions that all of them answer: "
        "how much the seed matters. The intervals of the other tables are over questions, for one training each."
    )
    columns = ["strategy", "k", "gold", "training seeds", "questions", *(metric.heading for metric in metrics)]
    return TableView("Spread over training seeds", caption, columns, rows)


def _on_common_questions(group: Sequence[CellResult]) -> list[CellResult]:
    """Restrict the cells to the questions that all of them answer: a closed-book filter depends on the trained reader."""
    common = set.intersection(*({sample.question.question_id for sample in cell.samples} for cell in group))
    return [cell.subset(lambda sample: sample.question.question_id in common) for cell in group]


def _spread(values: np.ndarray) -> str:
    return f"{values.mean():.1f} \N{PLUS-MINUS SIGN} {values.std(ddof=1):.1f} [{values.min():.1f}, {values.max():.1f}]"
