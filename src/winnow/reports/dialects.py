"""The questions on which two rules of the same metric differ, such as exact match as in SQuAD and as in CRAG's code."""

from collections.abc import Iterator, Sequence

from winnow.metrics.base import Metric
from winnow.reports.cells import CellResult, TableView

MAX_ROWS = 50
"""Maximum number of questions per table."""
_MAX_CHARACTERS = 120


def build_dialect_tables(cells: Sequence[CellResult]) -> list[TableView]:
    """Build a table of the questions on which rules differ, for each metric that the cells have with several rules.

    Rules of one metric are metrics with the same title and different dialects. A question is in the table once for each cell
    in which its values differ; where one rule leaves it undefined, it is not.
    """
    groups: dict[str, list[Metric]] = {}
    for metric in cells[0].metrics:
        if hasattr(metric, "dialect"):
            groups.setdefault(metric.title, []).append(metric)
    tables = []
    for title, metrics in groups.items():
        if len(metrics) > 1:
            rows = [row for cell in cells for row in _list_differences(cell, metrics)]
            if rows:
                shown = f"The first {MAX_ROWS} of {len(rows)}" if len(rows) > MAX_ROWS else str(len(rows))
                total = sum(len(cell.samples) for cell in cells)
                caption = f"{shown} of {total} answers in all cells have another value by another rule."
                columns = ["strategy", "k", "gold", "question", "reply", "accepted", *(metric.heading for metric in metrics)]
                tables.append(TableView(f"Answers on which the rules of {title} differ", caption, columns, rows[:MAX_ROWS]))
    return tables


def _list_differences(cell: CellResult, metrics: Sequence[Metric]) -> Iterator[list[str]]:
    """Yield a row for each question of a cell on which the metrics differ."""
    labels = cell.labels
    for index, sample in enumerate(cell.samples):
        rows = [cell.rows[metric.name][index] for metric in metrics]
        values = [None if row is None else metric.compute_value(row) for metric, row in zip(metrics, rows, strict=True)]
        defined = {value for value in values if value is not None}
        if len(defined) > 1:
            texts = (sample.prediction.reply or sample.prediction.answer, "; ".join(sample.question.answers))
            numbers = [
                "" if value is None else metric.format_value(value) for metric, value in zip(metrics, values, strict=True)
            ]
            yield [labels.line, str(labels.k), labels.gold, sample.question.question_id, *map(_shorten, texts), *numbers]


def _shorten(text: str) -> str:
    """Return a text on one line, with an ellipsis if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_CHARACTERS else line[: _MAX_CHARACTERS - 1] + "…"
