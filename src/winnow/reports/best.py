"""The best cell whose prompts use no gold labels, compared by question with other such cells."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from winnow.metrics.base import Metric
from winnow.metrics.comparisons import Comparison
from winnow.metrics.intervals import SIGNIFICANCE_LEVEL
from winnow.reports.cells import CellResult, get_unit, name_cells
from winnow.reports.comparisons import (
    describe_difference,
    format_comparison,
    name_comparison_columns,
)
from winnow.reports.family import Family
from winnow.reports.tables import TableView


@dataclass(frozen=True, slots=True)
class BestComparison:
    """Comparison of the best cell with another one.

    Attributes:
        index: Index of the other cell.
        comparison: Comparison of the first metric between the best cell and the other one.
        adjusted_p_value: P-value after Holm's correction over the family of the page, since any of
            the cells could have been the best.
        direction: Sign of an improvement of the metric (see `Metric.direction`).
    """

    index: int
    comparison: Comparison
    adjusted_p_value: float
    direction: int = 1

    @property
    def is_significant(self) -> bool:
        """Return whether the difference is significant after the correction."""
        return self.adjusted_p_value < SIGNIFICANCE_LEVEL

    @property
    def gain(self) -> float:
        """Return the best cell's lead over the other one, whether higher or lower is better."""
        return self.direction * self.comparison.difference

    @property
    def is_better(self) -> bool:
        """Return whether the best cell is significantly better than the other one."""
        return self.is_significant and self.gain > 0


@dataclass(frozen=True, slots=True)
class Best:
    """The deployable cell with the best mean of the first metric; the first one if several tie.

    Attributes:
        index: Index of the cell.
        comparisons: Comparisons with the other cells of its kind and of the same selection of
            questions that gave other answers, in the order of the cells. Cells without a common
            question on which both have a value are left out.
        equal: Indices of the cells with the same answers, which are not compared.
        is_deployable: Whether the cells are those whose prompts do not rest on gold labels. If all
            of them do, the best is chosen from all.
    """

    index: int
    comparisons: Sequence[BestComparison]
    equal: Sequence[int]
    is_deployable: bool = True


def find_best_mean(
    cells: Sequence[CellResult], indices: Iterable[int], metric: Metric, seed: int
) -> int | None:
    """Return the index of the first cell with a metric's best mean, or None if it is undefined."""
    intervals = [(cells[index].compute_interval(metric.name, seed), index) for index in indices]
    defined = [
        (metric.direction * interval.mean, -index) for interval, index in intervals if interval.n
    ]
    return -max(defined)[1] if defined else None


def name_best(metric: Metric) -> str:
    """Return the name of a metric's best value: "highest", or "lowest" where lower is better."""
    return "lowest" if metric.lower_is_better else "highest"


def find_best(family: Family, chosen: int | None = None) -> Best | None:
    """Find the best cell and compare it with others; return None if the metric is never defined.

    `chosen` is one of several cells with the best mean that is taken in place of the first of them.

    A placement that uses the gold labels (first, last, inserted, removed) is a control, which
    nobody can deploy, so that such a cell is the best only if all cells are of that kind.
    """
    cells = family.cells
    defined = [
        index
        for index, cell in enumerate(cells)
        if cell.compute_interval(family.metric.name, family.seed).n
    ]
    deployable = [index for index in defined if not cells[index].labels.uses_gold]
    candidates = deployable or defined
    index = (
        find_best_mean(cells, candidates, family.metric, family.seed) if chosen is None else chosen
    )
    if index is None:
        return None
    equal = [other for other in candidates if other != index and family.are_equal(index, other)]
    results = [(other, family.compare(index, other)) for other in candidates if other != index]
    comparisons = [
        BestComparison(other, *one, family.metric.direction)
        for other, one in results
        if one is not None
    ]
    return Best(index, comparisons, equal, bool(deployable))


def build_best_table(family: Family, *, is_filtered: bool = False) -> TableView | None:
    """Build a table of the best cell against others; return None for fewer than two comparisons.

    Args:
        family: Cells and tests.
        is_filtered: Whether the questions were selected by their answers without passages. Cells
            without passages are listed, but not counted, since the selection decides their values.
    """
    best, cells, metric = find_best(family), family.cells, family.metric
    if best is None or len(best.comparisons) < 2:
        return None
    names = name_cells(cells)
    unit = get_unit(metric)
    sorted_comparisons = sorted(best.comparisons, key=lambda other: (other.is_better, other.gain))
    rows = [
        [names[other.index], *format_comparison(other.comparison, other.adjusted_p_value, unit)]
        for other in sorted_comparisons
    ]
    counted_comparisons = [
        other
        for other in sorted_comparisons
        if not is_filtered or cells[other.index].labels.shows_passages
    ]
    num_better = sum(other.is_better for other in counted_comparisons)
    kind = "cells whose prompts do not rest on gold labels" if best.is_deployable else "cells"
    caption = (
        f"A is {names[best.index]}, which has the {name_best(metric)} {metric.heading} of the "
        f"{kind}. Of the {len(counted_comparisons)} others, it is significantly better than "
        f"{num_better or 'none'}{', which are the last rows' if num_better else ''}."
    )
    if len(counted_comparisons) < len(sorted_comparisons):
        caption += (
            " Cells without passages are not counted, because the questions were selected by their "
            "answers."
        )
    caption += describe_difference(metric)
    if (
        len({cell.labels.seed for cell in cells if cell.labels.seed}) > 1
        and cells[best.index].labels.seed
    ):
        caption += " A is the model of one training seed, the best of several."
    value = cells[best.index].compute_interval(metric.name, family.seed).mean
    tied_names = [
        names[other.index]
        for other in sorted_comparisons
        if cells[other.index].compute_interval(metric.name, family.seed).mean == value
    ]
    if tied_names:
        caption += f" The same value with other answers: {'; '.join(tied_names)}."
    if best.equal:
        caption += (
            " The same answers as A, which are not compared: "
            f"{'; '.join(names[index] for index in best.equal)}."
        )
    columns = ["B", *name_comparison_columns(metric)]
    num_shown = sum(not other.is_better for other in sorted_comparisons) or None
    return TableView("The best cell against the others", caption, columns, rows, num_shown)
