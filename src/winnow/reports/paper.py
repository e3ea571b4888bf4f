"""The part of a report that compares our cells with the values that a paper reports."""

import math
from collections.abc import Sequence

from winnow.metrics.intervals import UNDEFINED
from winnow.reports.cells import CellResult, TableView, unit_scale
from winnow.reports.differences import compute_differences, differences_table, sample_size_notes
from winnow.reports.reported import PaperPart, ReportedValue, matches

NOT_REPORTED = "not reported"


def compare_with_paper(
    part: PaperPart, cells: Sequence[CellResult], seed: int, filtered: tuple[int, int] | None
) -> tuple[list[TableView], list[str]]:
    """Build tables of our values, differences and numbers of questions beside the paper's, and the notes on them.

    Args:
        part: Table or figure of the paper.
        cells: Our cells, without the questions that the part leaves out.
        seed: Seed of the bootstrap.
        filtered: Our number of questions before and after the closed-book filter, or None without the filter.

    """
    tables = [_values_table(part, cells, seed)]
    differences = compute_differences(part, cells, seed)
    if differences:
        tables.append(differences_table(differences))
    if part.questions and filtered:
        rows = [["ours", *map(str, filtered)], ["paper", *map(str, part.questions)]]
        caption = (
            "number of questions before and after removing those that the reader answers without passages (paper: section 4)"
        )
        tables.append(TableView("Closed-book filter", caption, ["", "before", "after"], rows))
    return tables, sample_size_notes(differences)


def _values_table(part: PaperPart, cells: Sequence[CellResult], seed: int) -> TableView:
    rows = []
    for cell in cells:
        labels = cell.labels
        row = [labels.line, str(labels.k), labels.gold, str(labels.samples)]
        for name in part.metrics:
            row += _compare_with_paper(cell, name, part.reported, seed)
        rows.append(row)
    rows += [
        [f"{system} (others' result)", "", "", "", *_other_values("em", value, part.metrics)]
        for system, value in part.others.items()
    ]
    titles = [metric.heading if (metric := cells[0].metric(name)) else name for name in part.metrics]
    columns = ["strategy", "k", "gold", "samples"]
    columns += [f"{title} {side}" for title in titles for side in ("ours", "paper", "diff.")]
    notes = "; ".join(dict.fromkeys(value.note for value in part.reported if value.note))
    caption = f"{len(cells[0].samples)} questions; ours with 95 % intervals, on our data and reader. {notes}".strip()
    return TableView(f"Beside the paper: {part.source}", caption, columns, rows)


def _compare_with_paper(cell: CellResult, name: str, reported: Sequence[ReportedValue], seed: int) -> list[str]:
    """Return our value, the paper's, and the difference to the nearest value in the paper's range, as text."""
    metric = cell.metric(name)
    assert metric is not None, name
    ours = cell.interval(name, seed)
    paper = next((value for value in reported if value.metric == name and matches(cell.labels, value.where)), None)
    ours_text = metric.format(ours)
    if paper is None or not ours.n or math.isnan(paper.low):
        return [ours_text, NOT_REPORTED if paper is None else paper.format(), UNDEFINED]
    mean = unit_scale(metric) * ours.mean
    return [ours_text, paper.format(), f"{mean - min(max(mean, paper.low), paper.high):+.1f}"]


def _other_values(metric: str, value: float, metrics: Sequence[str]) -> list[str]:
    return [text for name in metrics for text in ((UNDEFINED, f"{value:g}" if name == metric else UNDEFINED, UNDEFINED))]
