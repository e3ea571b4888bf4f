"""Tables that compare pairs of cells question by question.

The two cells of a pair differ in one factor only: the strategy or another setting, k, or the placement of the gold passage.
The p-values of each table are corrected for multiple testing.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from winnow.metrics.base import MeanMetric
from winnow.metrics.comparisons import Comparison, adjust_p_values, format_p
from winnow.reports.cells import CellResult, TableView, can_compare, compare_cells, get_unit_scale
from winnow.sweeps.labels import CellLabels


@dataclass(frozen=True, slots=True)
class _Factor:
    """The factor in which the cells of one table differ.

    Attributes:
        title: Name of the factor, for the title of the table.
        is_pair: Function that returns whether two cells differ in this factor and in no other.
        format_value: Function that formats a cell's value of the factor, by which the cell is named within a pair.
        format_shared: Function that formats the labels that both cells of a pair share.

    """

    title: str
    is_pair: Callable[[CellLabels, CellLabels], bool]
    format_value: Callable[[CellLabels], str]
    format_shared: Callable[[CellLabels], str]


_FACTORS = (
    _Factor(
        "strategies and settings",
        lambda first, second: (
            (first.k, first.gold) == (second.k, second.gold)
            and (first.strategy != second.strategy) != (first.setting != second.setting)
        ),
        lambda labels: labels.line,
        lambda labels: f"k {labels.k}, {labels.gold}",
    ),
    _Factor(
        "k",
        lambda first, second: (
            (first.strategy, first.setting, first.gold) == (second.strategy, second.setting, second.gold)
            and first.k != second.k
        ),
        lambda labels: f"k {labels.k}",
        lambda labels: f"{labels.line}, {labels.gold}",
    ),
    _Factor(
        "placements",
        lambda first, second: (
            (first.strategy, first.setting, first.k) == (second.strategy, second.setting, second.k)
            and first.gold != second.gold
        ),
        lambda labels: labels.gold,
        lambda labels: f"{labels.line}, k {labels.k}",
    ),
)


def build_comparison_tables(cells: Sequence[CellResult], seed: int) -> list[TableView]:
    """Build one table for cells that differ only in strategy or setting, one for k, and one for the placement.

    The tables compare the first metric of the cells. A pair of cells is left out if it has no question in common or if the
    metric is undefined for either cell. A pair whose answers are all equal is listed in the caption and does not count as a
    test in the correction for multiple testing.

    Args:
        cells: Cells to compare.
        seed: Seed of the bootstrap and of the permutation test.

    Returns:
        Tables that have at least one pair of cells.

    """
    tables = [_build_factor_table(factor, cells, seed) for factor in _FACTORS]
    return [table for table in tables if table is not None]


def _build_factor_table(factor: _Factor, cells: Sequence[CellResult], seed: int) -> TableView | None:
    """Build the table of the pairs that differ only in one factor, or return None if there are no such pairs."""
    metric = cells[0].metrics[0]
    pair_names: list[list[str]] = []
    comparisons: list[Comparison] = []
    identical_pairs: list[str] = []
    for first, second in _iterate_pairs(factor, cells):
        first_name, second_name = factor.format_value(first.labels), factor.format_value(second.labels)
        shared_labels = factor.format_shared(first.labels)
        if first.answers == second.answers:
            identical_pairs.append(f"{first_name} = {second_name} ({shared_labels})")
            continue
        comparison = compare_cells(first, second, metric.name, seed)
        if comparison is not None:
            pair_names.append([first_name, second_name, shared_labels])
            comparisons.append(comparison)
    if not comparisons and not identical_pairs:
        return None
    scale = get_unit_scale(metric)
    adjusted_p_values = adjust_p_values([comparison.p_value for comparison in comparisons])
    rows = [
        [
            *names,
            comparison.format_difference(scale),
            comparison.p_text,
            format_p(adjusted_p_value),
            str(comparison.n),
            comparison.format_detectable(scale),
        ]
        for names, comparison, adjusted_p_value in zip(pair_names, comparisons, adjusted_p_values, strict=True)
    ]
    caption = (
        "The cells are paired by question. If all values are 0 or 1, the test is McNemar's exact test and the interval agrees "
        "with it. Otherwise, the test is a permutation test, and the interval is a bootstrap. If they disagree, rely on the "
        "test. Holm's correction covers the p-values of this table. The column 'detectable' is the smallest difference that "
        "these questions show with 80 % power."
    )
    if not isinstance(metric, MeanMetric):
        caption += (
            f" A - B is the mean difference of the questions' own {metric.heading}, for questions with a value in both cells."
        )
    if identical_pairs:
        caption += f" Identical answers, which are not compared: {'; '.join(identical_pairs)}."
    columns = ["A", "B", "at", f"{metric.heading}: A - B", "p", "p (Holm)", "questions", "detectable"]
    return TableView(f"Differences between {factor.title}", caption, columns, rows)


def _iterate_pairs(factor: _Factor, cells: Sequence[CellResult]) -> Iterator[tuple[CellResult, CellResult]]:
    """Yield the pairs of comparable cells that differ only in the factor.

    Cells with different training seeds are not paired. A cell without a training seed is paired with the cells of every seed.
    """
    for second, first in itertools.combinations(cells, 2):
        seeds = {first.labels.seed, second.labels.seed} - {""}
        if len(seeds) < 2 and factor.is_pair(first.labels, second.labels) and can_compare(first, second):
            yield first, second
