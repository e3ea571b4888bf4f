"""Comparison of the differences between cells that a paper reports with our own.

The table also gives the number of questions that are needed to show a difference of the size that
the paper reports.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from winnow.metrics.base import MeanMetric
from winnow.metrics.comparisons import (
    Comparison,
    Unit,
    adjust_p_values,
    compare,
    compute_questions_needed,
    format_p,
)
from winnow.metrics.intervals import UNDEFINED
from winnow.reports.cells import CellResult, can_compare, get_common_values, get_unit
from winnow.reports.comparisons import describe_difference
from winnow.reports.reported import PaperPart, ReportedDifference, has_labels
from winnow.reports.tables import TableView


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference that the paper reports, with our result for the same pair of cells.

    Attributes:
        reported: Difference as reported by the paper.
        title: Title of the metric.
        unit: Unit of the metric and of the paper.
        status: "not run" if the cells are missing, "undefined" if the metric is, or empty if there
            is a comparison.
        comparison: Our comparison of the two cells.
        num_needed_questions: Number of questions that show the paper's difference with 80 % power,
            or None if the paper reports only its sign, or if A - B is another difference.
        shared_labels: Strategy, seed and other settings of both cells if the paper's difference
            applies to several pairs, else empty.
        definition: What A - B is for a metric whose value is not a mean over questions, else empty.
    """

    reported: ReportedDifference
    title: str
    unit: Unit
    status: str
    comparison: Comparison | None = None
    num_needed_questions: int | None = None
    shared_labels: str = ""
    definition: str = ""


def compute_differences(
    part: PaperPart, cells: Sequence[CellResult], seed: int
) -> list[Difference]:
    """Compute our results for the differences in a paper's table or figure, in the paper's order.

    Args:
        part: Table or figure of the paper.
        cells: Our cells.
        seed: Seed of the bootstrap and of the permutation test.
    """
    return [
        entry
        for reported_difference in part.differences
        for entry in _compute_difference(part, reported_difference, cells, seed)
    ]


def _compute_difference(
    part: PaperPart, reported: ReportedDifference, cells: Sequence[CellResult], seed: int
) -> list[Difference]:
    """Compute one difference per pair of our cells that differ only in labels the paper states.

    If there is no such pair, the only element of the list has the status "not run".
    """
    first_cells, second_cells = (
        [cell for cell in cells if has_labels(cell.labels, {**part.at, **where})]
        for where in (reported.of, reported.less)
    )
    stated_labels = {*reported.of, *reported.less}
    varied_labels = {
        name for name in stated_labels if reported.of.get(name) != reported.less.get(name)
    }
    names = ("strategy", "k", "gold", "samples", "seed", "rank_by", "weight_by", "context")
    equal_labels = [name for name in names if name not in stated_labels]
    pairs = [
        (first, second)
        for first in first_cells
        for second in second_cells
        if can_compare(first, second)
        and all(
            getattr(first.labels, name) == getattr(second.labels, name) for name in equal_labels
        )
        and first.labels.has_other_settings_of(second.labels, varied_labels)
    ]
    metric = cells[0].find_metric(reported.metric)
    assert metric is not None, reported.metric
    title, unit = metric.heading, get_unit(metric)
    if not pairs:
        return [Difference(reported, title, unit, "not run")]
    differences = []
    for first, second in pairs:
        values = get_common_values(first, second, reported.metric, seed)
        shared_names = [
            name for name in ("strategy", "seed") if name in equal_labels and len(pairs) > 1
        ]
        shared_settings = (
            first.labels.select_other_settings(varied_labels) if len(pairs) > 1 else {}
        )
        shared_labels = ", ".join(
            [
                *(text for name in shared_names if (text := str(getattr(first.labels, name)))),
                *map("=".join, shared_settings.items()),
            ]
        )
        if values is None:
            differences.append(
                Difference(reported, title, unit, "undefined", shared_labels=shared_labels)
            )
            continue
        question_differences = [
            first_value - second_value for first_value, second_value in zip(*values, strict=True)
        ]
        num_needed = (
            compute_questions_needed(question_differences, reported.value / unit.scale)
            if reported.value and isinstance(metric, MeanMetric)
            else None
        )
        comparison = compare(*values, seed=seed)
        differences.append(
            Difference(
                reported,
                title,
                unit,
                "",
                comparison,
                num_needed,
                shared_labels,
                describe_difference(metric),
            )
        )
    return differences


def build_differences_table(differences: Sequence[Difference]) -> TableView:
    """Build a table of the paper's differences next to our own, with one row per pair of cells."""
    comparisons = [
        difference.comparison for difference in differences if difference.comparison is not None
    ]
    adjusted_p_values = iter(adjust_p_values([comparison.p_value for comparison in comparisons]))
    rows = []
    for difference in differences:
        reported_difference, ours = difference.reported, difference.comparison
        paper = reported_difference.sign or f"{reported_difference.value:+g}"
        values = [difference.status, UNDEFINED, UNDEFINED, UNDEFINED, paper, UNDEFINED]
        if ours is not None:
            num_needed = difference.num_needed_questions
            num_needed_text = UNDEFINED if num_needed is None else f"{num_needed:,}"
            adjusted_p = format_p(next(adjusted_p_values))
            values = [
                ours.format_difference(difference.unit),
                ours.p_text,
                adjusted_p,
                str(ours.n),
                paper,
                num_needed_text,
            ]
        first_name = _format_labels(reported_difference.of) + (
            f" ({difference.shared_labels})" if difference.shared_labels else ""
        )
        rows.append(
            [
                difference.title,
                first_name,
                _format_labels(reported_difference.less),
                *values,
                reported_difference.note,
            ]
        )
    caption = (
        "The cells are paired by question. If all values are 0 or 1, the test is McNemar's exact "
        "test and the interval agrees with it. Otherwise, the test is a permutation test and the "
        "interval is a bootstrap. p (Holm, this table) is corrected for the rows of this table "
        "alone. The column 'needed' is the number of questions that show the "
        "paper's difference with 80 % power."
    )
    caption += "".join(dict.fromkeys(difference.definition for difference in differences))
    columns = [
        "metric",
        "A",
        "B",
        "A - B",
        "p (raw)",
        "p (Holm, this table)",
        "questions",
        "paper",
        "needed",
        "the paper's statement",
    ]
    return TableView("Differences that the paper reports", caption, columns, rows)


def build_sample_size_notes(differences: Sequence[Difference]) -> list[str]:
    """Return a note if we have too few questions to show some differences that the paper reports.

    Returns:
        A list with one note, or an empty list if our questions suffice for every difference.
    """
    known_sizes = [
        (difference, difference.comparison.n, difference.num_needed_questions)
        for difference in differences
        if difference.comparison is not None and difference.num_needed_questions is not None
    ]
    lacking = [
        (difference, num_ours, num_needed)
        for difference, num_ours, num_needed in known_sizes
        if num_needed > num_ours
    ]
    if not lacking:
        return []
    easiest, _, least_needed = min(lacking, key=lambda entry: entry[2])
    hardest, _, most_needed = max(lacking, key=lambda entry: entry[2])
    num_questions = max(num_ours for _, num_ours, _ in lacking)
    note = (
        f"Too few questions: {num_questions} cannot show {len(lacking)} of the {len(known_sizes)} "
        "differences that the paper gives as numbers (80 % power, 5 % level). "
        f"{_format_difference(easiest)} would need {least_needed:,} questions"
    )
    if hardest is not easiest:
        note += f", and {_format_difference(hardest)} would need {most_needed:,}"
    return [f"{note}."]


def _format_difference(difference: Difference) -> str:
    reported_difference = difference.reported
    first_name, second_name = (
        _format_labels(reported_difference.of),
        _format_labels(reported_difference.less),
    )
    return (
        f"{difference.title} of {first_name} against {second_name} ({reported_difference.value:+g})"
    )


def _format_labels(labels: Mapping[str, Any]) -> str:
    """Format labels such as "concat_pf, k 20". The strategy is named by its value alone."""
    return ", ".join(
        str(value) if name == "strategy" else f"{name} {value}" for name, value in labels.items()
    )
