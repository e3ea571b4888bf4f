"""Findings: sentences about the cells of a sweep, each with the test or interval from which it follows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from winnow.metrics.base import Metric
from winnow.metrics.comparisons import compute_questions_needed, format_p
from winnow.metrics.intervals import SIGNIFICANCE_LEVEL, UNDEFINED, is_binary
from winnow.reports.best import Best, find_best, find_highest
from winnow.reports.cells import CellResult, can_compare, get_common_values, get_unit_scale
from winnow.reports.comparisons import FactorComparisons, Pair, compare_by_factor, group_equal_pairs

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
    """Build the findings: the best cell, what bounds it, the differences by factor, and what the answers cost.

    Args:
        cells: Cells of the sweep, whose first metric is compared.
        names: Name of each cell.
        seed: Seed of the bootstrap and of the permutation test.

    """
    metric = cells[0].metrics[0]
    best = find_best(cells, seed)
    if best is None:
        findings = [Finding(f"{metric.heading} is undefined in every cell.")]
    else:
        findings = [*_describe_best(cells, best, names, seed), *_describe_limits(cells, best.index, names, seed)]
    positions = {id(cell): index for index, cell in enumerate(cells)}
    for comparisons in compare_by_factor(cells, seed):
        findings += _describe_factor(comparisons, metric, positions, seed)
    return [*findings, *_describe_cost(cells, names, seed)]


def _describe_best(cells: Sequence[CellResult], best: Best, names: Sequence[str], seed: int) -> Iterator[Finding]:
    """Name the cell with the highest first metric, and compare it with all others that answer the same questions."""
    cell, metric = cells[best.index], cells[0].metrics[0]
    value = cell.format_metric(metric.name, seed)
    tied = f" {_join([names[index] for index in best.equal])} gave the same answers." if best.equal else ""
    questions = f"{cell.num_questions} questions, 95 % interval"
    yield Finding(f"The highest {metric.heading} is {value}, of {names[best.index]} ({questions}).{tied}", (best.index,))
    compared = best.comparisons
    if not compared:
        return
    close = [other.index for other in compared if not other.is_above]
    test = f"{_name_test(cells, metric)}, Holm's correction over {best.num_tests} pairs"
    if close:
        yield Finding(
            f"It is significantly above {len(compared) - len(close)} of the {len(compared)} other cells ({test}), but not "
            f"significantly above {_join([names[index] for index in close])}; and it was selected as the highest, which "
            "favors it.",
            (best.index, close[0]),
            len(close) < len(compared),
        )
    else:
        yield Finding(f"It is significantly above all {len(compared)} other cells ({test}).", (best.index,), True)


def _describe_limits(cells: Sequence[CellResult], best: int, names: Sequence[str], seed: int) -> Iterator[Finding]:
    """Say what bounds the metric: gold passages that were put into prompts, and questions without a stored answer."""
    cell, metric = cells[best], cells[0].metrics[0]
    if _inserts_gold(cell):
        others = [n for n, other in enumerate(cells) if not _inserts_gold(other) and can_compare(cell, other)]
        retrieved = find_highest(cells, others, metric, seed)
        text = "That cell puts the gold passage into the prompt even where it is not among the first k."
        if retrieved is None:
            yield Finding(text, (best,))
        else:
            value = cells[retrieved].format_metric(metric.name, seed)
            yield Finding(
                f"{text} The highest {metric.heading} of a cell that does not is {value}, of {names[retrieved]}.", (retrieved,)
            )
    ranked = [sample for sample in cell.samples if sample.ranking]
    answerable = {s.question.question_id for s in ranked if any(context.has_answer for context in s.ranking)}
    if ranked and len(answerable) < len(ranked):
        text = f"{len(ranked) - len(answerable)} of {len(ranked)} questions have no stored context that holds an answer."
        if answerable:
            value = cell.select_questions(answerable).format_metric(metric.name, seed)
            text += f" On the other {len(answerable)}, {names[best]} has {value}."
        yield Finding(text, (best,))
    distant = sum(provenance == "distant" for provenance in cell.columns.provenances)
    if distant:
        yield Finding(
            f"The gold passages of {distant} questions are the first stored contexts that contain an accepted answer as text, "
            "because the data set names none. Some contain it by chance, and do not answer the question.",
            (best,),
        )


def _inserts_gold(cell: CellResult) -> bool:
    """Return whether a prompt of the cell has a gold passage that is not among the first k of the ranking."""
    return any(c.is_gold and not 0 < c.rank <= cell.labels.k for sample in cell.samples for c in sample.placed)


def _name_test(cells: Sequence[CellResult], metric: Metric) -> str:
    values = np.concatenate([cell.compute_values(metric.name) for cell in cells])
    return "McNemar's exact test" if is_binary(values[~np.isnan(values)]) else "paired permutation test"


def _join(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def _describe_factor(
    comparisons: FactorComparisons, metric: Metric, positions: dict[int, int], seed: int
) -> Iterator[Finding]:
    """Describe the significant differences of one factor, largest first, and the largest that is not significant."""
    pairs = comparisons.pairs
    if not pairs:
        return
    significant = [pair for pair in pairs if pair.adjusted_p_value < SIGNIFICANCE_LEVEL]
    title, test = comparisons.factor.title, _name_test([cell for p in pairs for cell in (p.first, p.second)], metric)
    distinct = group_equal_pairs(sorted(significant, key=lambda pair: -abs(pair.comparison.difference)))
    if significant:
        repeated = len(significant) - len(distinct)
        same = f"; {repeated} of them compare{'s' if repeated == 1 else ''} the same answers as another" if repeated else ""
        yield Finding(
            f"{len(significant)} of {len(pairs)} differences between {title} are significant ({test}, Holm's "
            f"correction){same}.",
            significant=True,
        )
    else:
        yield Finding(f"None of {len(pairs)} differences between {title} is significant ({test}, Holm's correction).")
    for pair, equal in distinct[:_MOST_PAIRS]:
        same = f" The same answers: {'; '.join('{} against {} ({})'.format(*p.names) for p in equal)}." if equal else ""
        yield Finding(_format_pair(pair, metric) + same, _find_cells(pair, positions), True)
    if len(distinct) > _MOST_PAIRS:
        yield Finding(f"{len(distinct) - _MOST_PAIRS} smaller ones are in the report's table.", significant=True)
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
    corrected = format_p(pair.adjusted_p_value)
    return (
        f"{first} against {second} ({shared}): {difference} {metric.heading}, p {relation}{comparison.p_text}, corrected "
        f"{'' if corrected.startswith('<') else '= '}{corrected}, {comparison.n} questions."
    )


def _find_cells(pair: Pair, positions: dict[int, int]) -> tuple[int, int]:
    return positions[id(pair.first)], positions[id(pair.second)]


def _format_needed(pair: Pair, metric: Metric, seed: int) -> str:
    """Format the number of questions at which a single test shows a difference of this size."""
    values = get_common_values(pair.first, pair.second, metric.name, seed)
    if values is None:
        return ""
    num_needed = compute_questions_needed(values[0] - values[1], pair.comparison.difference)
    return f"If the true difference is as large, a single test shows it with {num_needed:,} questions (80 % power)."


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
