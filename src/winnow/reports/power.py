"""A power report: how many questions it takes to order two cells, and to show their difference."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from winnow.metrics.comparisons import Unit, compute_questions_needed
from winnow.metrics.power import PowerPoint, compute_power, find_size
from winnow.reports.cells import CellResult, get_common_values, get_unit
from winnow.reports.comparisons import Pair, compare_by_factor
from winnow.reports.family import Family
from winnow.reports.plots import Plot, build_plot, encode_axis
from winnow.reports.report import Report
from winnow.reports.tables import TableView

_STABLE, _POWERFUL = 0.95, 0.8
_MOST_LINES = 7


def choose_sizes(num_questions: int) -> list[int]:
    """Return a report's sample sizes: 50, 100, 200, 500 and so on, up to 10 * `num_questions`."""
    series = [factor * 10**power for power in range(1, 7) for factor in (1, 2, 5)]
    return sorted({*(size for size in series if 50 <= size <= 10 * num_questions), num_questions})


def find_questions_needed(points: Sequence[PowerPoint]) -> int | None:
    """Return the smallest number of questions from which a test shows the difference, or None."""
    return find_size(points, "significant", _POWERFUL)


def build_power_report(
    title: str,
    cells: Sequence[CellResult],
    provenance: Mapping[str, str],
    seed: int,
    sizes: Sequence[int],
    effects: Sequence[float],
) -> Report:
    """Build the report on all pairs of cells that differ in one factor.

    Args:
        title: Title of the page.
        cells: Cells of a sweep, whose first metric is compared.
        provenance: Description of the data, models, seeds and code, by topic.
        seed: Seed of the draws.
        sizes: Numbers of questions.
        effects: Differences of a planned comparison, in the unit of the metric.
    """
    metric = cells[0].metrics[0]
    unit = get_unit(metric)
    pairs = [
        pair for comparisons in compare_by_factor(Family(cells, seed)) for pair in comparisons.pairs
    ]
    entries = []
    for pair in pairs:
        differences = _get_differences(pair, metric.name, seed)
        if differences.any():
            entries.append((pair, differences, compute_power(differences, sizes, seed=seed)))
    entries.sort(key=lambda entry: -abs(entry[0].comparison.difference))
    notes = (
        []
        if entries
        else [
            "No two cells that differ in one factor have different values, so that there is "
            "nothing to show."
        ]
    )
    if not entries:
        return Report(title, notes, [], [], provenance)
    tables = [
        _build_sizes_table(entries, unit),
        _build_sets_table(entries, sizes, unit),
        _build_shares_table(
            "Same order", "of draws in which the same cell is better", entries, sizes, "same_order"
        ),
        _build_shares_table(
            "Significant",
            "of draws in which a test finds that it is",
            entries,
            sizes,
            "significant",
        ),
        _build_planning_table(entries, effects, unit.scale),
    ]
    return Report(title, notes, tables, [_plot(entries)], provenance)


Entry = tuple[Pair, NDArray[np.float64], Sequence[PowerPoint]]


def describe_questions_needed(pair: Pair, metric: str, seed: int) -> str:
    """Say how many questions would show a pair's observed difference, or "" if it has none."""
    differences = _get_differences(pair, metric, seed)
    if not differences.any():
        return ""
    sizes = choose_sizes(pair.comparison.n)
    num_needed = find_questions_needed(compute_power(differences, sizes, seed=seed))
    return (
        "; tested alone, this one would need "
        f"{f'up to {num_needed:,}' if num_needed else f'over {sizes[-1]:,}'} questions"
    )


def _get_differences(pair: Pair, metric: str, seed: int) -> NDArray[np.float64]:
    values = get_common_values(pair.first, pair.second, metric, seed)
    return np.empty(0) if values is None else values[0] - values[1]


def _build_sizes_table(entries: Sequence[Entry], unit: Unit) -> TableView:
    """Build a table of the question counts that make the order stable and show the difference."""
    rows = []
    for pair, _, points in entries:
        stable, num_needed = find_size(points, "same_order", _STABLE), find_questions_needed(points)
        texts = [f"{size:,}" if size else f"> {points[-1].n:,}" for size in (stable, num_needed)]
        rows.append(
            [*pair.names, pair.comparison.format_difference(unit), str(pair.comparison.n), *texts]
        )
    caption = (
        "Smallest number of questions from which on at least 95 % of the draws have the same order "
        "as all questions, and at least 80 % of them show the difference at the 5 % level without "
        "correction. Questions are drawn with replacement, so that this rests on the observed "
        "difference; if it was selected as large, the true one is probably smaller."
    )
    return TableView(
        "How many questions it takes",
        caption,
        ["A", "B", "at", "A - B", "questions", "stable", "shown"],
        rows,
    )


def _build_sets_table(entries: Sequence[Entry], sizes: Sequence[int], unit: Unit) -> TableView:
    """Build a table of the differences that sets of questions of each size have."""
    rows = [
        [*pair.names, *(_format_range(point, unit) for point in points)]
        for pair, _, points in entries
    ]
    numbers = [f"{size:,}" for size in sizes]
    caption = (
        "95 % prediction interval for A - B over so many other questions of the same kind: how far "
        "another set may differ from this one. Where it includes 0, the set of questions decides "
        "which one is better."
    )
    return TableView(
        "Sets of questions", caption, ["A", "B", "at", *numbers], rows, subject=numbers
    )


def _format_range(point: PowerPoint, unit: Unit) -> str:
    return f"{unit.format_signed(point.low)} to {unit.format_signed(point.high)}"


def _build_shares_table(
    title: str, of: str, entries: Sequence[Entry], sizes: Sequence[int], measure: str
) -> TableView:
    rows = [
        [*pair.names, *(f"{100 * getattr(point, measure):.0f}" for point in points)]
        for pair, _, points in entries
    ]
    numbers = [f"{size:,}" for size in sizes]
    return TableView(
        title,
        f"% {of}, by the number of questions.",
        ["A", "B", "at", *numbers],
        rows,
        subject=numbers,
    )


def _build_planning_table(
    entries: Sequence[Entry], effects: Sequence[float], scale: float
) -> TableView:
    """Build a table of the numbers of questions that a planned comparison needs."""
    rows = [
        [
            *pair.names,
            *(f"{compute_questions_needed(differences, effect / scale):,}" for effect in effects),
        ]
        for pair, differences, _ in entries
    ]
    caption = (
        "Number of questions that show a difference of this size (80 % power, 5 % level), if cells "
        "differ as often as these."
    )
    sizes = [f"{effect:g}" for effect in effects]
    return TableView("Planned comparisons", caption, ["A", "B", "at", *sizes], rows, subject=sizes)


def _plot(entries: Sequence[Entry]) -> Plot:
    """Plot the share of draws with the same order by question count for the largest differences."""
    import altair as alt

    lines = [
        (f"{pair.names[0]} - {pair.names[1]}, {pair.names[2]}", points)
        for pair, _, points in entries[:_MOST_LINES]
    ]
    rows = [
        (name, point.n, 100 * point.same_order, 100 * point.significant)
        for name, points in lines
        for point in points
    ]
    values = [{"line": name, "n": n, "share": share} for name, n, share, _ in rows]
    base = alt.Chart(alt.InlineData(values)).mark_line(point=True)
    lines_of_pairs = base.encode(
        x=alt.X(**encode_axis("n", "questions", scale=alt.Scale(type="log"))),
        y=alt.Y(**encode_axis("share", "share of draws, %", scale=alt.Scale(zero=False))),
        color=alt.Color("line", type="nominal", sort=[name for name, _ in lines]),
    )
    bound = alt.Chart(alt.InlineData([{"share": 100 * _STABLE}])).mark_rule(
        strokeDash=[2, 3], color="gray"
    )
    chart = alt.layer(lines_of_pairs, bound.encode(y="share:Q"))
    return build_plot(
        "Draws with the same order",
        ("pair", "questions", "same order, %", "significant, %"),
        rows,
        chart,
    )
