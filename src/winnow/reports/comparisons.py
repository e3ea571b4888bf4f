"""Tables that compare pairs of cells question by question.

The two cells of a pair differ in one factor only: the strategy or another setting, k, or the
placement of the gold passage. The p-values are corrected over the family of the page (see
`Family`).
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from winnow.metrics.base import MeanMetric, Metric
from winnow.metrics.comparisons import Comparison, Unit, format_p
from winnow.metrics.intervals import SIGNIFICANCE_LEVEL
from winnow.reports.cells import CellResult, can_compare, get_unit, have_equal_results
from winnow.reports.family import Family
from winnow.reports.tables import TableView
from winnow.sweeps.labels import CellLabels


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor in which the two cells of a pair differ.

    Attributes:
        title: Name of the factor, for the title of the table.
        is_pair: Function that returns whether two cells differ in this factor and in no other.
        format_value: Function that formats a cell's value of the factor, by which the cell is named
            within a pair.
        format_shared: Function that formats the labels that both cells of a pair share.
    """

    title: str
    is_pair: Callable[[CellLabels, CellLabels], bool]
    format_value: Callable[[CellLabels], str]
    format_shared: Callable[[CellLabels], str]


_FACTORS = (
    Factor(
        "strategies and settings",
        lambda first, second: (
            (first.k, first.gold) == (second.k, second.gold)
            and (first.strategy != second.strategy) != (first.setting != second.setting)
        ),
        lambda labels: labels.line,
        lambda labels: f"k {labels.k}, {labels.gold}",
    ),
    Factor(
        "k",
        lambda first, second: (
            (first.strategy, first.setting, first.gold)
            == (second.strategy, second.setting, second.gold)
            and first.k != second.k
        ),
        lambda labels: f"k {labels.k}",
        lambda labels: f"{labels.line}, {labels.gold}",
    ),
    Factor(
        "placements",
        lambda first, second: (
            (first.strategy, first.setting, first.k) == (second.strategy, second.setting, second.k)
            and first.gold != second.gold
        ),
        lambda labels: labels.gold,
        lambda labels: f"{labels.line}, k {labels.k}",
    ),
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two cells that differ in one factor, with their comparison.

    Attributes:
        factor: Factor in which the cells differ.
        first: First cell.
        second: Second cell.
        indices: Indices of both cells.
        comparison: Comparison of the first metric between the first cell and the second.
        adjusted_p_value: P-value after Holm's correction over the family of the page.
    """

    factor: Factor
    first: CellResult
    second: CellResult
    indices: tuple[int, int]
    comparison: Comparison
    adjusted_p_value: float

    @property
    def names(self) -> tuple[str, str, str]:
        """Return the names of the first and the second cell, and the labels that both share."""
        first, second = self.first.labels, self.second.labels
        return (
            self.factor.format_value(first),
            self.factor.format_value(second),
            self.factor.format_shared(first),
        )

    @property
    def is_significant(self) -> bool:
        """Return whether the difference is significant after the correction."""
        return self.adjusted_p_value < SIGNIFICANCE_LEVEL


@dataclass(frozen=True, slots=True)
class FactorComparisons:
    """All pairs of cells that differ in one factor.

    Attributes:
        factor: Factor in which the cells of each pair differ.
        pairs: Compared pairs.
        identical: Pairs with equal answers and values of the metric, which do not count as tests,
            as text.
    """

    factor: Factor
    pairs: Sequence[Pair]
    identical: Sequence[str]


def compare_by_factor(family: Family) -> list[FactorComparisons]:
    """Compare the first metric of cells that differ in strategy or setting, in k, or in placement.

    A pair of cells is left out if it has no question in common or if the metric is undefined for
    either cell. A pair with equal answers and values is not a test.

    Returns:
        Comparisons by factor, without factors in which no two cells differ.
    """
    comparisons = [_compare_factor(factor, family) for factor in _FACTORS]
    return [one for one in comparisons if one.pairs or one.identical]


def _compare_factor(factor: Factor, family: Family) -> FactorComparisons:
    pairs: list[Pair] = []
    identical: list[str] = []
    for first, second in _iterate_pairs(factor, family.cells):
        one, other = family.cells[first], family.cells[second]
        if family.are_equal(first, second):
            names = f"{factor.format_value(one.labels)} = {factor.format_value(other.labels)}"
            identical.append(f"{names} ({factor.format_shared(one.labels)})")
        elif (result := family.compare(first, second)) is not None:
            pairs.append(Pair(factor, one, other, (first, second), *result))
    return FactorComparisons(factor, pairs, identical)


def build_comparison_tables(family: Family) -> list[TableView]:
    """Build one table each for cells that differ only in strategy or setting, k, or placement.

    Returns:
        Tables that have at least one pair of cells.
    """
    return [_build_factor_table(one, family.metric) for one in compare_by_factor(family)]


def name_comparison_columns(metric: Metric) -> list[str]:
    """Return the names of the columns that `format_comparison` fills."""
    return [f"{metric.heading}: A - B", "p (raw)", "p (Holm)", "questions", "detectable"]


def format_comparison(comparison: Comparison, adjusted_p_value: float, unit: Unit) -> list[str]:
    """Format a comparison for a row of a table; see `name_comparison_columns`.

    Args:
        comparison: Comparison of A with B.
        adjusted_p_value: P-value after the correction over the family of the page.
        unit: Unit of the metric.
    """
    return [
        comparison.format_difference(unit),
        comparison.p_text,
        format_p(adjusted_p_value),
        str(comparison.n),
        comparison.format_detectable(unit),
    ]


def describe_difference(metric: Metric) -> str:
    """Return a sentence on A - B for a metric that is not a mean over questions, else ""."""
    if isinstance(metric, MeanMetric):
        return ""
    return (
        f" A - B is the mean difference of the questions' own {metric.heading}, for questions with "
        "a value in both cells."
    )


def group_equal_pairs(pairs: Sequence[Pair]) -> list[tuple[Pair, list[Pair]]]:
    """Group pairs of cells with equal results, such as placements at k = 1, by the first pair."""
    groups: list[tuple[Pair, list[Pair]]] = []
    for pair in pairs:
        equal = next((group for first, group in groups if _have_equal_pairs(first, pair)), None)
        if equal is None:
            groups.append((pair, []))
        else:
            equal.append(pair)
    return groups


def _have_equal_pairs(first: Pair, second: Pair) -> bool:
    metric = first.first.metrics[0].name
    return have_equal_results(first.first, second.first, metric) and have_equal_results(
        first.second, second.second, metric
    )


def _build_factor_table(comparisons: FactorComparisons, metric: Metric) -> TableView:
    """Build the table of the pairs that differ only in one factor."""
    unit = get_unit(metric)
    pairs = sorted(comparisons.pairs, key=lambda pair: pair.adjusted_p_value)
    num_significant = sum(pair.is_significant for pair in pairs)
    rows = [
        [*pair.names, *format_comparison(pair.comparison, pair.adjusted_p_value, unit)]
        for pair in pairs
    ]
    num_distinct, distinct = (
        len(group_equal_pairs(some)) for some in (pairs, pairs[:num_significant])
    )
    repeated = len(pairs) - num_distinct
    verb = "are" if distinct > 1 else "is"
    same = (
        f"; {repeated} more of the rows compare the same answers as another row" if repeated else ""
    )
    caption = (
        f"{distinct or 'None'} of {num_distinct} distinct differences {verb} significant after "
        f"Holm's correction{same}."
    )
    caption += describe_difference(metric)
    if not pairs:
        caption = "No two cells that differ in this alone have different answers."
    if comparisons.identical:
        caption += (
            f" Identical answers, which are not compared: {'; '.join(comparisons.identical)}."
        )
    columns = ["A", "B", "at", *name_comparison_columns(metric)]
    return TableView(
        f"Differences between {comparisons.factor.title}", caption, columns, rows, num_significant
    )


def _iterate_pairs(factor: Factor, cells: Sequence[CellResult]) -> Iterator[tuple[int, int]]:
    """Yield index pairs of comparable cells that differ only in the factor, the later cell first.

    Cells with different training seeds are not paired. A cell without a training seed is paired
    with the cells of every seed.
    """
    for (other, second), (one, first) in itertools.combinations(enumerate(cells), 2):
        seeds = {first.labels.seed, second.labels.seed} - {""}
        is_pair = (
            len(seeds) < 2
            and factor.is_pair(first.labels, second.labels)
            and can_compare(first, second)
        )
        if is_pair and not any(_is_between(cell, first, second) for cell in cells):
            yield one, other


def _is_between(cell: CellResult, first: CellResult, second: CellResult) -> bool:
    """Return whether a cell differs from two others only in some of the settings where they differ.

    The two cells then differ in several settings that were varied independently, such as retriever
    and prompt. Settings that always change together, such as a reader and its training, have no
    cell between them.
    """
    labels, one, other = cell.labels, first.labels, second.labels
    if one.setting == other.setting or (labels.strategy, labels.k, labels.gold) != (
        one.strategy,
        one.k,
        one.gold,
    ):
        return False
    if labels.seed not in (one.seed, other.seed) or not (
        can_compare(cell, first) and can_compare(cell, second)
    ):
        return False
    settings, ours, theirs = dict(labels.varying), dict(one.varying), dict(other.varying)
    is_mixed = all(value in (ours.get(name), theirs.get(name)) for name, value in settings.items())
    return is_mixed and settings not in (ours, theirs)
