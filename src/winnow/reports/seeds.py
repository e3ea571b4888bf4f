"""A table of how much the metrics vary between models that were trained with different seeds."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from winnow.metrics.base import MeanMetric, Metric
from winnow.metrics.intervals import UNDEFINED
from winnow.reports.cells import CellResult, get_unit_scale
from winnow.reports.tables import TableView
from winnow.sweeps.labels import CellLabels


def build_seeds_table(cells: Sequence[CellResult], seed: int) -> TableView | None:
    """Build a table of the mean, standard deviation and range of each metric over training seeds.

    Args:
        cells: Cells of the report. Those that differ only in their training seed form one row.
        seed: Seed of the bootstrap, which is not a training seed.

    Returns:
        Table, or None if there are no cells that differ only in their training seed.
    """
    cells_by_labels: dict[CellLabels, list[CellResult]] = {}
    for cell in cells:
        if cell.labels.seed:
            cells_by_labels.setdefault(replace(cell.labels, seed="", code=""), []).append(cell)
    groups = [
        _select_common_questions(group)
        for group in cells_by_labels.values()
        if len({cell.labels.seed for cell in group}) > 1
    ]
    if not groups:
        return None
    metrics = [metric for metric in cells[0].metrics if metric.unit == "percent"]
    rows = []
    for group in groups:
        labels = replace(group[0].labels, seed="")
        seeds = ", ".join(cell.labels.seed for cell in group)
        row = [labels.line, str(labels.k), labels.gold, seeds, str(group[0].num_questions)]
        for metric in metrics:
            defined = _select_defined_questions(group, metric)
            intervals = [cell.compute_interval(metric.name, seed) for cell in defined]
            values = get_unit_scale(metric) * np.array(
                [interval.mean for interval in intervals if interval.n]
            )
            numbers = sorted({interval.n for interval in intervals})
            is_whole = numbers == [group[0].num_questions]
            number = (
                "" if is_whole else f" (n {'–'.join(map(str, numbers[:: len(numbers) - 1 or 1]))})"
            )
            row.append(_format_spread(values) + number if len(values) == len(group) else UNDEFINED)
        rows.append(row)
    caption = (
        "Mean, standard deviation and range over the models that were trained with different "
        "seeds. All models of a row are evaluated on the same questions, and a mean is over those "
        "for which it is defined for all of them. The intervals of the other tables are over "
        "questions, for one model each."
    )
    columns = [
        "strategy",
        "k",
        "gold",
        "training seeds",
        "questions",
        *(metric.heading for metric in metrics),
    ]
    return TableView("Spread over training seeds", caption, columns, rows)


def _select_common_questions(cells: Sequence[CellResult]) -> list[CellResult]:
    """Restrict the cells to the questions that all of them have.

    The questions can differ because the closed-book filter depends on the trained reader.
    """
    common_ids = set.intersection(*(set(cell.columns.question_ids) for cell in cells))
    return [cell.select_questions(common_ids) for cell in cells]


def _select_defined_questions(cells: Sequence[CellResult], metric: Metric) -> Sequence[CellResult]:
    """Restrict cells with the same questions to those for which a mean is defined in all."""
    if not isinstance(metric, MeanMetric):
        return cells
    values = np.array([cell.compute_values(metric.name) for cell in cells])
    is_defined = ~np.isnan(values).any(axis=0)
    ids = cells[0].columns.question_ids
    common_ids = {id_ for id_, has_value in zip(ids, is_defined.tolist(), strict=True) if has_value}
    return [cell.select_questions(common_ids) for cell in cells]


def _format_spread(values: np.ndarray) -> str:
    return (
        f"{values.mean():.1f} \N{PLUS-MINUS SIGN} {values.std(ddof=1):.1f} [{values.min():.1f}, "
        f"{values.max():.1f}]"
    )
