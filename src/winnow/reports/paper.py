"""The tables of a report that compare our cells with the values of a table or figure of a paper."""

import math
from collections.abc import Sequence

from winnow.metrics.intervals import UNDEFINED
from winnow.reports.cells import CellResult, format_question_count, get_unit
from winnow.reports.differences import (
    build_differences_table,
    build_sample_size_notes,
    compute_differences,
)
from winnow.reports.reported import PaperPart, find_value
from winnow.reports.tables import TableView

NOT_REPORTED = "not reported"
_IN_OTHER_ROWS = "in other rows"
"""Text for a metric of which the paper has values of its own models alone."""
_COMPARED = ("ours", "paper", "diff.")
"""Ends of the names of the columns of a metric for which the paper has a value."""


def compare_with_paper(
    part: PaperPart, cells: Sequence[CellResult], seed: int, filtered: Sequence[tuple[int, int]]
) -> tuple[list[TableView], list[str]]:
    """Build tables of our values, differences and question counts next to the paper's values.

    Args:
        part: Table or figure of the paper.
        cells: Our cells, without the questions that the table or figure does not cover.
        seed: Seed of the bootstrap.
        filtered: Our distinct numbers of questions before and after closed-book filters.

    Returns:
        Tables, and notes on differences for which we have too few questions.
    """
    tables = [_build_values_table(part, cells, seed)]
    is_covered = all(_covers(part, cell) for cell in cells)
    differences = compute_differences(part, cells, seed) if is_covered else []
    if differences:
        tables.append(build_differences_table(differences))
    if part.questions and filtered:
        rows = [["ours", *map(str, counts)] for counts in filtered]
        rows.append(["paper", *map(str, part.questions)])
        caption = (
            "Number of questions before and after removing those that the reader answers without "
            "passages. The paper describes its filter in section 4."
        )
        tables.append(TableView("Closed-book filter", caption, ["", "before", "after"], rows))
    return tables, build_sample_size_notes(differences)


def _build_values_table(part: PaperPart, cells: Sequence[CellResult], seed: int) -> TableView:
    """Build a table of our values next to the paper's, with a row per cell and per other system."""
    rows = []
    for cell in cells:
        labels = cell.labels
        row = [labels.line, str(labels.k), labels.gold, str(labels.samples)]
        for name in part.metrics:
            row += _format_comparison(cell, name, part, seed)
        rows.append(row)
    rows += [
        [f"{system} (in the paper alone)", "", "", "", *_format_other_result(values, part.metrics)]
        for system, values in part.other_systems.items()
    ]
    titles = [
        metric.heading if (metric := cells[0].find_metric(name)) else name for name in part.metrics
    ]
    columns = ["strategy", "k", "gold", "samples"]
    columns += [f"{title} {side}" for title in titles for side in (*_COMPARED, "in interval")]
    notes = "; ".join(dict.fromkeys(value.note for value in part.reported if value.note))
    if part.flags:
        notes += f" The source disagrees with itself: {'; '.join(part.flags)}."
    caption = (
        f"{format_question_count(cells)} questions. Our values have 95 % intervals; the paper's "
        f"have none. {notes}"
    ).strip()
    has_values = {
        name
        for name, *texts in zip(columns, *rows, strict=True)
        if {*texts} - {NOT_REPORTED, _IN_OTHER_ROWS, UNDEFINED}
    }
    subject = [
        f"{title} {side}"
        for title in titles
        for side in _COMPARED
        if f"{title} paper" in has_values
    ]
    return TableView(f"Beside the paper: {part.source}", caption, columns, rows, subject=subject)


def _covers(part: PaperPart, cell: CellResult) -> bool:
    """Return whether cells differ in neither data nor, if the values are by model, readers."""
    labels = cell.labels
    return not (labels.varies_data or (part.is_by_model and labels.varies_reader))


def _format_comparison(cell: CellResult, name: str, part: PaperPart, seed: int) -> list[str]:
    """Format our value, the paper's, the difference, and whether our interval covers the paper's.

    If the paper reports a range, the difference is to the nearest value in it.
    """
    metric = cell.find_metric(name)
    assert metric is not None, name
    ours = cell.compute_interval(name, seed)
    paper = find_value(part.reported, name, cell.labels) if _covers(part, cell) else None
    ours_text = cell.format_metric(name, seed)
    if paper is None or not ours.n or math.isnan(paper.low):
        placeholder = NOT_REPORTED if part.reported or not part.other_systems else _IN_OTHER_ROWS
        return [ours_text, placeholder if paper is None else paper.format(), UNDEFINED, UNDEFINED]
    unit = get_unit(metric)
    mean, low, high = (unit.scale * value for value in (ours.mean, ours.low, ours.high))
    is_inside = low <= paper.high and paper.low <= high
    return [
        ours_text,
        paper.format(),
        f"{mean - min(max(mean, paper.low), paper.high):+.{unit.digits}f}",
        "yes" if is_inside else "no",
    ]


def _format_other_result(values: Sequence[float], metrics: Sequence[str]) -> list[str]:
    """Format another system's first values, four columns per metric; the rest is undefined."""
    value_texts = [f"{value:g}" for value in values] + [UNDEFINED] * (len(metrics) - len(values))
    return [text for value in value_texts for text in (UNDEFINED, value, UNDEFINED, UNDEFINED)]
