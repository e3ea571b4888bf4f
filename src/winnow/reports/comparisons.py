"""Tables of paired comparisons: cells that differ in one thing only, with p-values corrected within each table."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from winnow.metrics.base import RatioMetric
from winnow.metrics.comparisons import Comparison, format_p, holm
from winnow.reports.cells import CellResult, TableView, difference, paired, unit_scale
from winnow.sweeps.labels import CellLabels


@dataclass(frozen=True, slots=True)
class _Factor:
    """What the cells of a table differ in.

    Attributes:
        title: What is compared, for the title of the table.
        is_pair: Function that tells whether two cells differ in this and in nothing else.
        value: Function that names a cell within a pair.
        rest: Function that names what both cells of a pair share.

    """

    title: str
    is_pair: Callable[[CellLabels, CellLabels], bool]
    value: Callable[[CellLabels], str]
    rest: Callable[[CellLabels], str]


_FACTORS = (
    _Factor(
        "strategies and settings",
        lambda a, b: (a.k, a.gold) == (b.k, b.gold) and (a.strategy != b.strategy) != (a.setting != b.setting),
        lambda labels: labels.line,
        lambda labels: f"k {labels.k}, {labels.gold}",
    ),
    _Factor(
        "k",
        lambda a, b: (a.strategy, a.setting, a.gold) == (b.strategy, b.setting, b.gold) and a.k != b.k,
        lambda labels: f"k {labels.k}",
        lambda labels: f"{labels.line}, {labels.gold}",
    ),
    _Factor(
        "placements",
        lambda a, b: (a.strategy, a.setting, a.k) == (b.strategy, b.setting, b.k) and a.gold != b.gold,
        lambda labels: labels.gold,
        lambda labels: f"{labels.line}, k {labels.k}",
    ),
)


def comparison_tables(cells: Sequence[CellResult], seed: int) -> list[TableView]:
    """Build one table each for cells that differ only in strategy or setting, only in k, and only in the placement.

    Each compares the first metric. Pairs are left out if they have no question in common, if the metric is undefined for
    either, or if all their answers are equal; the caption lists the latter, which are no tests for the correction either.
    """
    tables = [_factor_table(factor, cells, seed) for factor in _FACTORS]
    return [table for table in tables if table is not None]


def _factor_table(factor: _Factor, cells: Sequence[CellResult], seed: int) -> TableView | None:
    metric = cells[0].metrics[0]
    names: list[list[str]] = []
    comparisons: list[Comparison] = []
    identical: list[str] = []
    for first, second in _pairs(factor, cells):
        if first.answers == second.answers:
            a, b = factor.value(first.labels), factor.value(second.labels)
            identical.append(f"{a} = {b} ({factor.rest(first.labels)})")
            continue
        comparison = difference(first, second, metric.name, seed)
        if comparison is not None:
            names.append([factor.value(first.labels), factor.value(second.labels), factor.rest(first.labels)])
            comparisons.append(comparison)
    if not comparisons and not identical:
        return None
    scale = unit_scale(metric)
    rows = [
        [*name, c.signed(scale), c.p_text, format_p(adjusted), str(c.n), c.detectable_text(scale)]
        for name, c, adjusted in zip(names, comparisons, holm([c.p_value for c in comparisons]), strict=True)
    ]
    caption = (
        "paired on the same questions: McNemar's exact test and the interval that agrees with it if values are 0 or 1, else a "
        "permutation test and a bootstrap (where these disagree, believe the test); Holm's correction is over this table; "
        "detectable: the smallest difference that these questions show with 80 % power."
    )
    if isinstance(metric, RatioMetric):
        caption += f" A - B is the mean difference of the questions' own {metric.heading}, where both have one."
    if identical:
        caption += f" Identical answers, which are not compared: {'; '.join(identical)}."
    columns = ["A", "B", "at", f"{metric.heading}: A - B", "p", "p (Holm)", "questions", "detectable"]
    return TableView(f"Differences between {factor.title}", caption, columns, rows)


def _pairs(factor: _Factor, cells: Sequence[CellResult]) -> Iterator[tuple[CellResult, CellResult]]:
    for second, first in itertools.combinations(cells, 2):
        seeds = {first.labels.seed, second.labels.seed} - {""}
        if len(seeds) < 2 and factor.is_pair(first.labels, second.labels) and paired(first, second):
            yield first, second
