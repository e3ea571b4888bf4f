"""Differences between cells that a paper reports, beside ours, and how many questions it takes to show them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from winnow.metrics.comparisons import Comparison, compare, format_p, holm, questions_needed
from winnow.metrics.intervals import UNDEFINED
from winnow.reports.cells import CellResult, TableView, common_values, paired, unit_scale
from winnow.reports.reported import PaperPart, ReportedDifference, matches


@dataclass(frozen=True, slots=True)
class Difference:
    """Our value of a difference that the paper reports.

    Attributes:
        reported: The paper's difference.
        title: Title of the metric.
        scale: Factor that converts the metric's values to the unit of the paper.
        status: "not run" or "undefined" if there is no comparison, else empty.
        comparison: Our difference.
        needed: Number of questions that show the paper's value with 80 % power, or None if it reports only a sign.
        shared: Strategy and seed of both cells, if several pairs of cells have this difference.

    """

    reported: ReportedDifference
    title: str
    scale: float
    status: str
    comparison: Comparison | None = None
    needed: int | None = None
    shared: str = ""


def compute_differences(part: PaperPart, cells: Sequence[CellResult], seed: int) -> list[Difference]:
    """Compute our values of the differences that a part of a paper reports, in its order."""
    return [entry for reported in part.differences for entry in _compute_difference(part, reported, cells, seed)]


def _compute_difference(
    part: PaperPart, reported: ReportedDifference, cells: Sequence[CellResult], seed: int
) -> list[Difference]:
    """Compute a difference for every pair of cells that differ only as the paper's do, or say that there is none."""
    first_cells, second_cells = (
        [cell for cell in cells if matches(cell.labels, {**part.at, **where})] for where in (reported.of, reported.less)
    )
    stated = {*reported.of, *reported.less}
    free = [name for name in ("strategy", "k", "gold", "samples", "seed") if name not in stated]
    pairs = [
        (first, second)
        for first in first_cells
        for second in second_cells
        if paired(first, second) and all(getattr(first.labels, name) == getattr(second.labels, name) for name in free)
    ]
    metric = cells[0].metric(reported.metric)
    assert metric is not None, reported.metric
    title, scale = metric.heading, unit_scale(metric)
    if not pairs:
        return [Difference(reported, title, scale, "not run")]
    entries = []
    for pair in pairs:
        values = common_values(*pair, reported.metric, seed)
        shared = ", ".join(
            str(getattr(pair[0].labels, name)) for name in ("strategy", "seed") if name in free and len(pairs) > 1
        )
        if values is None:
            entries.append(Difference(reported, title, scale, "undefined", shared=shared))
            continue
        spread = [a - b for a, b in zip(*values, strict=True)]
        needed = questions_needed(spread, reported.value / scale) if reported.value else None
        entries.append(Difference(reported, title, scale, "", compare(*values, seed=seed), needed, shared))
    return entries


def differences_table(differences: Sequence[Difference]) -> TableView:
    """Build a table of the paper's differences, each beside ours."""
    adjusted = iter(holm([entry.comparison.p_value for entry in differences if entry.comparison is not None]))
    rows = []
    for entry in differences:
        reported, ours = entry.reported, entry.comparison
        paper = reported.sign or f"{reported.value:+g}"
        values = [entry.status, UNDEFINED, UNDEFINED, UNDEFINED, paper, UNDEFINED]
        if ours is not None:
            needed = UNDEFINED if entry.needed is None else f"{entry.needed:,}"
            values = [ours.signed(entry.scale), ours.p_text, format_p(next(adjusted)), str(ours.n), paper, needed]
        first = _selector_text(reported.of) + (f" ({entry.shared})" if entry.shared else "")
        rows.append([entry.title, first, _selector_text(reported.less), *values, reported.note])
    caption = (
        "paired by question: McNemar's exact test and the interval that agrees with it if values are 0 or 1, else a "
        "permutation test and a bootstrap; needed: the questions on which the paper's difference shows with 80 % power"
    )
    columns = ["metric", "A", "B", "A - B", "p", "p (Holm)", "questions", "paper", "needed", "the paper's statement"]
    return TableView("Differences that the paper reports", caption, columns, rows)


def sample_size_notes(differences: Sequence[Difference]) -> list[str]:
    """Return a note on the paper's differences that our number of questions is too small to show, or nothing."""
    lacking = [d for d in differences if d.comparison is not None and d.needed is not None and d.needed > d.comparison.n]
    known = [d for d in differences if d.comparison is not None and d.needed is not None]
    if not lacking:
        return []
    easiest, hardest = (choose(lacking, key=lambda d: d.needed or 0) for choose in (min, max))
    n = max(d.comparison.n for d in lacking if d.comparison is not None)
    return [
        f"Too few questions: {n} cannot show {len(lacking)} of the {len(known)} differences that the paper puts in numbers "
        f"(80 % power, 5 % level). {_name_difference(easiest)} would need {easiest.needed:,} questions"
        + (f", {_name_difference(hardest)} {hardest.needed:,}." if hardest is not easiest else ".")
    ]


def _name_difference(entry: Difference) -> str:
    reported = entry.reported
    return f"{entry.title} of {_selector_text(reported.of)} against {_selector_text(reported.less)} ({reported.value:+g})"


def _selector_text(where: Mapping[str, Any]) -> str:
    return ", ".join(str(value) if label == "strategy" else f"{label} {value}" for label, value in where.items())
