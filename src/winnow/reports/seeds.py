"""The spread of a metric over training seeds, apart from its intervals over questions."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from winnow.reports.cells import CellResult, TableView, scale_of


def seeds_table(cells: Sequence[CellResult], seed: int) -> TableView | None:
    """Build a table of mean, standard deviation and range over training seeds, or return None if no cell has several.

    Args:
        cells: Cells; those that differ only in their training seed are one row.
        seed: Seed of the intervals, as in the other tables.

    """
    groups: dict[object, list[CellResult]] = {}
    for cell in cells:
        groups.setdefault(replace(cell.labels, seed="", code=""), []).append(cell)
    trained = [group for group in groups.values() if len(group) > 1]
    if not trained:
        return None
    metrics = [metric for metric in cells[0].metrics if metric.unit == "percent"]
    rows = []
    for group in trained:
        labels = group[0].labels
        row = [labels.line, str(labels.k), labels.gold, ", ".join(cell.labels.seed for cell in group)]
        for metric in metrics:
            intervals = [cell.interval(metric.name, seed) for cell in group]
            values = scale_of(metric) * np.array([interval.mean for interval in intervals if interval.n])
            row.append(_spread(values) if len(values) > 1 else "\N{EN DASH}")
        rows.append(row)
    caption = (
        "mean, standard deviation and range over trainings of each training's value: how much the seed matters. The intervals "
        "of the other tables are over questions, for one training each."
    )
    columns = ["strategy", "k", "gold", "training seeds", *(metric.heading for metric in metrics)]
    return TableView("Spread over training seeds", caption, columns, rows)


def _spread(values: np.ndarray) -> str:
    return f"{values.mean():.1f} \N{PLUS-MINUS SIGN} {values.std(ddof=1):.1f} [{values.min():.1f}, {values.max():.1f}]"
