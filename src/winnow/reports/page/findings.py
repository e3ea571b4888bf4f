"""Findings of a sweep: the gain from gold labels, the effect of each factor, and their wording."""

from collections.abc import Iterator
from dataclasses import dataclass

from winnow.metrics.comparisons import format_p
from winnow.reports.best import Best, BestComparison, find_best_mean
from winnow.reports.cells import CellResult, get_unit_scale
from winnow.reports.comparisons import FactorComparisons, Pair, group_equal_pairs
from winnow.reports.family import Family
from winnow.reports.power import describe_questions_needed


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence about cells of the sweep.

    Attributes:
        text: Sentence.
        cells: Indices of the cells of which the sentence speaks: none, one, or two that can be
            compared.
        interval: Difference between the two cells, and the bounds of its 95 % interval, in the unit
            of the metric; empty if the sentence states no difference.
        is_significant: Whether the sentence states a difference that is significant after the
            correction.
    """

    text: str
    cells: tuple[int, ...] = ()
    interval: tuple[float, ...] = ()
    is_significant: bool = False


def describe_ceiling(family: Family, best: Best) -> Iterator[Finding]:
    """Say what the gold labels would bring."""
    cells = family.cells
    questions = cells[best.index].labels.questions
    oracles = [
        index
        for index, cell in enumerate(cells)
        if cell.labels.uses_gold and cell.labels.questions == questions
    ]
    ceiling = (
        find_best_mean(cells, oracles, family.metric, family.seed) if best.is_deployable else None
    )
    result = None if ceiling is None else family.compare(ceiling, best.index)
    if ceiling is None or result is None:
        return
    comparison = BestComparison(ceiling, *result, family.metric.direction)
    if comparison.gain <= 0:
        return
    value = cells[ceiling].format_metric(family.metric.name, family.seed)
    certainty = f"{format_gain(family, comparison)} better than the best setting without"
    yield Finding(
        f"With gold labels, {cells[ceiling].labels.words} reaches {value}, {certainty} "
        f"({format_pair_p(comparison)}).",
        (ceiling, best.index),
        get_bounds(family, comparison),
        comparison.is_significant,
    )


def describe_factor(family: Family, comparisons: FactorComparisons, best: Best) -> Finding:
    """Name the largest difference of one factor: one between settings without gold labels first,
    then a significant one.

    Where several are left, one of the best setting comes before any other.
    """
    title, pairs = (
        comparisons.factor.title,
        [pair for pair, _ in group_equal_pairs(comparisons.pairs)],
    )
    significant = [pair for pair in pairs if pair.is_significant]

    def rank(pair: Pair) -> tuple[bool, bool, bool, float]:
        is_control = best.is_deployable and any(
            family.cells[index].labels.uses_gold for index in pair.indices
        )
        return (
            not is_control,
            pair.is_significant,
            best.index in pair.indices,
            abs(pair.comparison.difference),
        )

    pair = max(pairs, key=rank)
    indices, comparison = _turn_pair(family, pair)
    text = f"{family.metric.heading} is {_describe_pair(family, title, pair)}"
    if title == "placements" and family.cells[indices[0]].labels.uses_gold:
        text += ", which inserts it where it was not retrieved"
    if significant:
        verb = "is" if len(significant) == 1 else "are"
        text += (
            f". {len(significant)} of {len(pairs)} distinct differences between {title} {verb} "
            "significant"
        )
        strongest = max(significant, key=lambda one: abs(one.comparison.difference))
        most = ":" if len(significant) == 1 else ", most of all"
        text += (
            "." if pair.is_significant else f"{most} {_describe_pair(family, title, strongest)}."
        )
    else:
        none = f"The only difference between {title} is not"
        if len(pairs) > 1:
            none = f"None of {len(pairs)} distinct differences between {title} is"
        text += (
            f". {none} "
            f"significant{describe_questions_needed(pair, family.metric.name, family.seed)}."
        )
    return Finding(text, indices, get_bounds(family, comparison), pair.is_significant)


def _turn_pair(family: Family, pair: Pair) -> tuple[tuple[int, int], BestComparison]:
    """Return the indices of a pair, the higher cell first, and the comparison in this order."""
    first, second = pair.indices
    indices = (second, first) if pair.comparison.difference < 0 else (first, second)
    result = family.compare(*indices)
    assert result is not None
    return indices, BestComparison(indices[1], *result)


def _describe_pair(family: Family, title: str, pair: Pair) -> str:
    """Say by how much one cell of a pair is higher than the other, and what both share."""
    indices, comparison = _turn_pair(family, pair)
    higher, lower, shared_text = _name_pair(title, *(family.cells[index] for index in indices))
    return (
        f"{format_difference(family, comparison)} higher {higher} than {lower} ({shared_text}; "
        f"{format_pair_p(comparison)})"
    )


def _name_pair(title: str, first: CellResult, second: CellResult) -> tuple[str, str, str]:
    """Return what differs between two cells, in words, and what both share."""
    one, other = first.labels, second.labels
    if title == "k":
        return (
            f"with {one.passages}",
            f"with {other.passages}",
            f"{one.line}, {one.placed or one.gold}",
        )
    if title == "placements":
        return one.placed or one.gold, other.placed or other.gold, f"{one.line} on {one.passages}"
    shared_text = one.words.removeprefix(one.line).strip().removeprefix("on ")
    return f"with {one.line}", f"with {other.line}", shared_text


def get_bounds(family: Family, other: BestComparison) -> tuple[float, ...]:
    """Return a difference and the ends of its interval, in the unit of the metric."""
    scale, comparison = get_unit_scale(family.metric), other.comparison
    return tuple(
        scale * value for value in (comparison.difference, comparison.low, comparison.high)
    )


def format_gain(family: Family, other: BestComparison) -> str:
    """Format how much better the best setting is, as a positive number even if lower is better."""
    return format_difference(family, other, other.direction)


def format_difference(family: Family, other: BestComparison, direction: int = 1) -> str:
    """Format a difference, negated if `direction` is -1, and its interval, in points for shares."""
    difference, *bounds = (direction * value + 0.0 for value in get_bounds(family, other))
    low, high = sorted(bounds)
    is_share = family.metric.unit == "percent"
    unit, digits = (" points", 1) if is_share else ("", family.metric.digits)
    return f"{difference:.{digits}f}{unit} [{low:.{digits}f}, {high:.{digits}f}]"


def format_pair_p(other: BestComparison) -> str:
    """Format the p-value of a comparison alone and, if the correction changes it, corrected."""
    alone, corrected_p = (
        text if text.startswith("<") else f"= {text}"
        for text in map(format_p, (other.comparison.p_value, other.adjusted_p_value))
    )
    verdict = "" if other.is_significant else ", not significant"
    second = "" if alone == corrected_p else f", {corrected_p.removeprefix('= ')} corrected"
    return f"p {alone}{second}{verdict}"
