"""The cell with the highest first metric, compared question by question with every other cell."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from winnow.metrics.base import Metric
from winnow.metrics.comparisons import Comparison, adjust_p_values, compute_p_value
from winnow.metrics.intervals import SIGNIFICANCE_LEVEL
from winnow.reports.cells import (
    CellResult,
    TableView,
    can_compare,
    compare_cells,
    get_common_values,
    get_unit_scale,
    have_equal_results,
    name_cells,
)
from winnow.reports.comparisons import describe_difference, format_comparison, name_comparison_columns


@dataclass(frozen=True, slots=True)
class BestComparison:
    """Comparison of the best cell with another one.

    Attributes:
        index: Index of the other cell.
        comparison: Comparison of the first metric of the best cell with that of the other one.
        adjusted_p_value: P-value after Holm's correction over all pairs of cells with different answers, since any of the
            cells could have been the best.

    """

    index: int
    comparison: Comparison
    adjusted_p_value: float

    @property
    def is_above(self) -> bool:
        """Return whether the best cell is significantly above the other one."""
        return self.adjusted_p_value < SIGNIFICANCE_LEVEL and self.comparison.difference > 0


@dataclass(frozen=True, slots=True)
class Best:
    """The cell with the highest mean of the first metric, the first of several.

    Attributes:
        index: Index of the cell.
        comparisons: Comparisons with the cells of the same selection of questions that gave other answers, in the order of the
            cells. Cells without a common question on which both have a value are left out.
        equal: Indices of the cells with the same answers, which are not compared.
        num_tests: Number of pairs of cells with different answers, which are the family of Holm's correction.

    """

    index: int
    comparisons: Sequence[BestComparison]
    equal: Sequence[int]
    num_tests: int = 0


def find_highest(cells: Sequence[CellResult], indices: Iterable[int], metric: Metric, seed: int) -> int | None:
    """Return the index of the cell with the highest mean of a metric, the first of several, or None if it is undefined."""
    intervals = [(cells[index].compute_interval(metric.name, seed), index) for index in indices]
    defined = [(interval.mean, -index) for interval, index in intervals if interval.n]
    return -max(defined)[1] if defined else None


def find_best(cells: Sequence[CellResult], seed: int) -> Best | None:
    """Find the best cell and compare it with the others; return None if the metric is undefined in every cell.

    Args:
        cells: Cells of the sweep, whose first metric is compared.
        seed: Seed of the bootstrap and of the permutation test.

    """
    metric = cells[0].metrics[0]
    index = find_highest(cells, range(len(cells)), metric, seed)
    if index is None:
        return None
    best = cells[index]
    equal = [n for n, other in enumerate(cells) if n != index and have_equal_results(best, other, metric.name)]
    others = [n for n, other in enumerate(cells) if n != index and n not in equal and can_compare(best, other)]
    compared = [(n, compare_cells(best, cells[n], metric.name, seed)) for n in others]
    defined = [(n, comparison) for n, comparison in compared if comparison is not None]
    others_p_values = _compute_other_p_values([cells[n] for n, _ in defined], metric.name, seed)
    adjusted = adjust_p_values([*(comparison.p_value for _, comparison in defined), *others_p_values])
    comparisons = [BestComparison(*entry, p_value) for entry, p_value in zip(defined, adjusted, strict=False)]
    return Best(index, comparisons, equal, len(adjusted))


def _compute_other_p_values(cells: Sequence[CellResult], metric: str, seed: int) -> list[float]:
    """Compute the p-values of all pairs of cells with different results, which are the rest of the family of tests."""
    p_values = []
    for first, second in itertools.combinations(cells, 2):
        if can_compare(first, second) and not have_equal_results(first, second, metric):
            values = get_common_values(first, second, metric, seed)
            p_values += [] if values is None else [compute_p_value(*values, seed=seed)]
    return p_values


def build_best_table(cells: Sequence[CellResult], seed: int) -> TableView | None:
    """Build the table of the best cell against the others, or return None if there are fewer than two to compare it with.

    Args:
        cells: Cells of the sweep, whose first metric is compared.
        seed: Seed of the bootstrap and of the permutation test.

    """
    best = find_best(cells, seed)
    if best is None or len(best.comparisons) < 2:
        return None
    names, metric = name_cells(cells), cells[0].metrics[0]
    scale = get_unit_scale(metric)
    ordered = sorted(best.comparisons, key=lambda other: (other.is_above, other.comparison.difference))
    rows = [[names[other.index], *format_comparison(other.comparison, other.adjusted_p_value, scale)] for other in ordered]
    num_above = sum(other.is_above for other in ordered)
    caption = (
        f"A is {names[best.index]}, which has the highest {metric.heading}. It is significantly above {num_above} of "
        f"{len(ordered)} other cells after Holm's correction over the {best.num_tests} pairs of these cells with different "
        "answers, because A was selected as the highest; those that it is not above come first. The selection favors A: on "
        "other questions, its lead is smaller on average. Tests and intervals are those of the tables of differences."
    )
    caption += describe_difference(metric)
    if len({cell.labels.seed for cell in cells if cell.labels.seed}) > 1 and cells[best.index].labels.seed:
        caption += " A is the model of one training seed, the best of several."
    value = cells[best.index].compute_interval(metric.name, seed).mean
    tied = [names[other.index] for other in ordered if cells[other.index].compute_interval(metric.name, seed).mean == value]
    if tied:
        caption += f" As high with other answers: {'; '.join(tied)}."
    if is_gold_inserted(cells[best.index].labels.gold):
        retrieved = [index for index, cell in enumerate(cells) if not is_gold_inserted(cell.labels.gold)]
        highest = find_highest(cells, retrieved, metric, seed)
        has_gold = [provenance != "none" for provenance in cells[best.index].columns.provenances]
        caption += f" A's placement shows the gold passage for each of the {sum(has_gold)} questions that have one"
        caption += "." if highest is None else f"; the highest of the others is {names[highest]}."
    if best.equal:
        caption += f" The same answers as A, which are not compared: {'; '.join(names[index] for index in best.equal)}."
    columns = ["B", *name_comparison_columns(metric)]
    return TableView("The best cell against the others", caption, columns, rows, len(rows) - num_above or None)


def is_gold_inserted(placement: str) -> bool:
    """Return whether a placement, by its name, puts the gold passage into the prompt of every question that has one."""
    return placement == "shuffled" or (placement.startswith("gold_") and not placement.startswith("gold_removed"))
