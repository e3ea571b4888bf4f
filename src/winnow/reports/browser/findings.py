"""Findings: sentences about the cells of a sweep, each with the test or interval from which it follows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from winnow.metrics.base import Metric
from winnow.metrics.comparisons import adjust_p_values, compute_questions_needed, format_p
from winnow.metrics.intervals import UNDEFINED
from winnow.reports.cells import CellResult, can_compare, compare_cells, get_common_values, get_unit_scale
from winnow.reports.comparisons import SIGNIFICANCE_LEVEL, FactorComparisons, Pair, compare_by_factor

_MOST_PAIRS = 4
"""Number of significant differences that are named for each factor; the largest come first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence, with the cells that it is about.

    Attributes:
        text: Sentence.
        cells: Indices of the cells of which the sentence speaks: none, one, or two that can be compared.
        significant: Whether the sentence states a difference that is significant after correction.

    """

    text: str
    cells: tuple[int, ...] = ()
    significant: bool = False


def build_findings(cells: Sequence[CellResult], names: Sequence[str], seed: int) -> list[Finding]:
    """Build the findings: the best cell, the differences by factor, and what the answers cost.

    Args:
        cells: Cells of the sweep, whose first metric is compared.
        names: Name of each cell.
        seed: Seed of the bootstrap and of the permutation test.

    """
    findings = list(_find_best(cells, names, seed))
    positions = {id(cell): index for index, cell in enumerate(cells)}
    for comparisons in compare_by_factor(cells, seed):
        findings += _describe_factor(comparisons, cells[0].metrics[0], positions, seed)
    return [*findings, *_describe_cost(cells, names, seed)]


def _find_best(cells: Sequence[CellResult], names: Sequence[str], seed: int) -> Iterator[Finding]:
    """Name the cell with the highest first metric, and compare it with all others that answer the same questions."""
    metric = cells[0].metrics[0]
    means = [(cell.compute_interval(metric.name, seed), index) for index, cell in enumerate(cells)]
    defined = [(interval.mean, index) for interval, index in means if interval.n]
    if not defined:
        yield Finding(f"{metric.heading} is undefined in every cell.")
        return
    _, best = max(defined, key=lambda pair: (pair[0], -pair[1]))
    cell = cells[best]
    value = cell.format_metric(metric.name, seed)
    yield Finding(
        f"The highest {metric.heading} is {value}, of {names[best]} ({len(cell.samples)} questions, 95 % interval).", (best,)
    )
    others = [index for index, other in enumerate(cells) if index != best and can_compare(cell, other)]
    comparisons = [(index, compare_cells(cell, cells[index], metric.name, seed)) for index in others]
    compared = [(index, comparison) for index, comparison in comparisons if comparison is not None]
    adjusted = adjust_p_values([comparison.p_value for _, comparison in compared])
    close = [
        index
        for (index, comparison), p_value in zip(compared, adjusted, strict=True)
        if p_value >= SIGNIFICANCE_LEVEL or comparison.difference <= 0
    ]
    if not compared:
        return
    named = ", ".join(names[index] for index in close[:_MOST_PAIRS])
    more = f" and {len(close) - _MOST_PAIRS} more" if len(close) > _MOST_PAIRS else ""
    if close:
        yield Finding(
            f"It is significantly above {len(compared) - len(close)} of the {len(compared)} other cells (Holm's correction). "
            f"It is not above {named}{more}; and it was selected as the highest, which favours it.",
            (best, close[0]),
        )
    else:
        yield Finding(f"It is significantly above all {len(compared)} other cells (Holm's correction).", (best,), True)


def _describe_factor(
    comparisons: FactorComparisons, metric: Metric, positions: dict[int, int], seed: int
) -> Iterator[Finding]:
    """Describe the significant differences of one factor, largest first, and the largest that is not significant."""
    pairs = comparisons.pairs
    if not pairs:
        return
    significant = [pair for pair in pairs if pair.adjusted_p_value < SIGNIFICANCE_LEVEL]
    title = comparisons.factor.title
    if significant:
        yield Finding(
            f"{len(significant)} of {len(pairs)} differences between {title} are significant after Holm's correction.",
            significant=True,
        )
    else:
        yield Finding(f"None of {len(pairs)} differences between {title} is significant after Holm's correction.")
    for pair in sorted(significant, key=lambda pair: -abs(pair.comparison.difference))[:_MOST_PAIRS]:
        yield Finding(_format_pair(pair, metric), _find_cells(pair, positions), True)
    rest = [pair for pair in pairs if pair.adjusted_p_value >= SIGNIFICANCE_LEVEL and pair.comparison.difference]
    if rest:
        largest = max(rest, key=lambda pair: abs(pair.comparison.difference))
        yield Finding(
            f"The largest that is not: {_format_pair(largest, metric)} {_format_needed(largest, metric, seed)}",
            _find_cells(largest, positions),
        )


def _format_pair(pair: Pair, metric: Metric) -> str:
    first, second, shared = pair.names
    comparison = pair.comparison
    difference = comparison.format_difference(get_unit_scale(metric))
    relation = "" if comparison.p_text.startswith("<") else "= "
    return (
        f"{first} against {second} ({shared}): {difference} {metric.heading}, p {relation}{comparison.p_text}, corrected "
        f"{format_p(pair.adjusted_p_value)}, {comparison.n} questions."
    )


def _find_cells(pair: Pair, positions: dict[int, int]) -> tuple[int, int]:
    return positions[id(pair.first)], positions[id(pair.second)]


def _format_needed(pair: Pair, metric: Metric, seed: int) -> str:
    """Format the number of questions at which a single test shows a difference of this size."""
    values = get_common_values(pair.first, pair.second, metric.name, seed)
    if values is None:
        return ""
    differences = [first - second for first, second in zip(*values, strict=True)]
    needed = compute_questions_needed(differences, pair.comparison.difference)
    return f"If the true difference is as large, a single test shows it with {needed:,} questions (80 % power)."


def _describe_cost(cells: Sequence[CellResult], names: Sequence[str], seed: int) -> Iterator[Finding]:
    """Name the cells that read the most and the fewest tokens per question among those with passages."""
    costs = [
        (cell.compute_interval("tokens_in", seed).mean, index)
        for index, cell in enumerate(cells)
        if cell.labels.k and cell.find_metric("tokens_in") and cell.compute_interval("tokens_in", seed).n
    ]
    if len(costs) < 2:
        return
    (least, cheapest), (most, dearest) = min(costs), max(costs)
    ratio = f"{most / least:.1f} times as many" if least else UNDEFINED
    yield Finding(
        f"{names[dearest]} reads {most:,.0f} tokens per question, {ratio} as {names[cheapest]} ({least:,.0f}).",
        (dearest, cheapest),
    )
