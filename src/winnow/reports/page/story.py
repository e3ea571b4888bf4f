"""The story of a sweep: the setting to use, how sure that is, what matters besides, and what the
numbers cannot say.

A headline names no setting whose prompts rest on gold labels: nobody has these for a new question.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from winnow.metrics.comparisons import format_p
from winnow.reports.best import Best, BestComparison, find_best, find_best_mean, name_best
from winnow.reports.cells import CellResult, get_unit_scale
from winnow.reports.comparisons import (
    FactorComparisons,
    Pair,
    compare_by_factor,
    group_equal_pairs,
)
from winnow.reports.family import Family
from winnow.reports.page.limits import describe_limits
from winnow.reports.power import describe_questions_needed

_SIMPLEST = "the simplest setting"
"""What the baseline of the headline is called, unless costs are unknown or the best setting is the
simplest one.
"""
_MUCH_MORE = 1.1
"""Ratio of costs from which the page prefers the simplest setting where no test tells it from the
best one.
"""


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


@dataclass(frozen=True, slots=True)
class Story:
    """What a reader sees first.

    Attributes:
        headline: The best setting, with its value and its difference to the baseline.
        cost: Number of questions, and what the best setting costs.
        findings: What else the sweep found, most important first.
        limits: What bounds the numbers.

    """

    headline: Finding
    cost: str
    findings: Sequence[Finding]
    limits: Sequence[str]

    @property
    def best(self) -> int | None:
        """Return the index of the best setting, or None if the metric is undefined in
        every cell.
        """
        return self.headline.cells[0] if self.headline.cells else None


def build_story(family: Family, cost: str = "tokens", selection: str = "") -> Story:
    """Build the story of the cells of a family.

    Args:
        family: Cells and tests.
        cost: Name of the metric of which the cheapest setting has the least.
        selection: What the selection of the questions does to settings without passages, such as
            "low by selection, because ...", so that they are not recommended for their cost; "" if
            it does nothing.

    """
    choice = _choose(family, cost)
    story = _build_headline(family, choice, cost, selection)
    if choice is None:
        return story
    best, baseline, _ = choice
    findings = [
        *_describe_cheaper(family, best, baseline, cost, bool(selection)),
        *_describe_ceiling(family, best),
        *(_describe_factor(family, one, best) for one in compare_by_factor(family) if one.pairs),
    ]
    return replace(story, findings=findings, limits=list(describe_limits(family, best)))


def build_headline(family: Family, cost: str = "tokens", selection: str = "") -> Story:
    """Build a story with the headline and what the best setting costs alone, which takes a small
    part of the time.
    """
    return _build_headline(family, _choose(family, cost), cost, selection)


Choice = tuple[Best, BestComparison | None, str]
"""The best setting, its comparison with the baseline, and what the baseline is called."""


def _choose(family: Family, cost: str) -> Choice | None:
    """Choose the best setting and the baseline, or return None if the metric is undefined in every
    cell.
    """
    found = find_best(family)
    if found is None:
        return None
    best = _take_cheapest(family, found, cost)
    return best, *_choose_baseline(family, best, cost)


def _build_headline(family: Family, choice: Choice | None, cost: str, selection: str) -> Story:
    if choice is None:
        return Story(Finding(f"{family.metric.heading} is undefined in every cell."), "", [], [])
    headline = _format_headline(family, *choice, cost)
    if selection and not family.cells[choice[0].index].labels.shows_passages:
        headline = replace(
            headline, text=f"{headline.text} Settings without passages are {selection}."
        )
    return Story(headline, _describe_cost(family, *choice, cost), [], [])


def _get_mean(family: Family, index: int) -> float:
    return family.cells[index].compute_interval(family.metric.name, family.seed).mean


def _get_cost(family: Family, index: int, cost: str) -> float | None:
    """Return the mean cost of a cell, or None if it is undefined."""
    cell = family.cells[index]
    if cell.find_metric(cost) is None:
        return None
    interval = cell.compute_interval(cost, family.seed)
    return interval.mean if interval.n else None


def _take_cheapest(family: Family, best: Best, cost: str) -> Best:
    """Return the best cell as the cheapest of those with its value."""
    tied = [
        other.index
        for other in best.comparisons
        if _get_mean(family, other.index) == _get_mean(family, best.index)
    ]
    level = (best.index, *best.equal, *tied)
    costs = {index: own for index in level if (own := _get_cost(family, index, cost)) is not None}
    return (
        find_best(family, min(costs, key=lambda one: (costs[one], one), default=best.index)) or best
    )


def _is_simplest(family: Family, best: Best, cost: str) -> bool:
    """Return whether the best setting has passages, and no other with passages that it is compared
    with is cheaper.
    """
    own = _get_cost(family, best.index, cost)
    others = [
        _get_cost(family, other.index, cost)
        for other in best.comparisons
        if family.cells[other.index].labels.shows_passages
    ]
    has_passages = family.cells[best.index].labels.shows_passages
    return (
        has_passages
        and own is not None
        and bool(others)
        and all(one is not None and own <= one for one in others)
    )


def _choose_baseline(family: Family, best: Best, cost: str) -> tuple[BestComparison | None, str]:
    """Return the comparison with the simplest setting, and what that is called.

    The simplest setting is the cheapest with passages, or one without if there is no other. If that
    is the best one itself, or if no cost is known, it is compared with the next highest.
    """
    costs = {other.index: _get_cost(family, other.index, cost) for other in best.comparisons}
    if not costs:
        return None, ""
    if _is_simplest(family, best, cost) or None in costs.values():
        means = [family.metric.direction * _get_mean(family, index) for index in costs]
        next_best = max(
            zip(best.comparisons, means, strict=True), key=lambda one: (one[1], -one[0].index)
        )[0]
        return next_best, f"the next {name_best(family.metric)}"

    def rank(other: BestComparison) -> tuple[bool, float, int]:
        return (
            not family.cells[other.index].labels.shows_passages,
            costs[other.index] or 0.0,
            other.index,
        )

    return min(best.comparisons, key=rank), _SIMPLEST


def _format_headline(
    family: Family, best: Best, baseline: BestComparison | None, role: str, cost: str
) -> Finding:
    cell, metric = family.cells[best.index], family.metric
    interval = cell.compute_interval(metric.name, family.seed)
    value = (
        metric.format(interval).replace(" [", " % [", 1)
        if metric.unit == "percent"
        else metric.format(interval)
    )
    controls = any(other.labels.uses_gold for other in family.cells)
    kind = " of the settings without gold labels" if controls and best.is_deployable else ""
    tied = [other for other in best.comparisons if _get_mean(family, other.index) == interval.mean]
    is_level = _are_level(family, best, tied)
    if is_level:
        text = (
            f"All settings{kind.removeprefix(' of the settings')} have the same {metric.heading}: "
            f"{value}."
        )
        if _get_cost(family, best.index, cost) is not None:
            text += f" The one with the lowest cost is {cell.labels.words}."
    else:
        shared = f" (as have {len(tied)} with other answers)" if tied else ""
        text = (
            f"{cell.labels.words} has the {name_best(metric)} {metric.heading}{kind}{shared}: "
            f"{value}."
        )
    if len({other.labels.questions for other in family.cells}) > 1:
        text += (
            " Some cells answer other questions; it is compared with those that answer the same."
        )
    if not best.is_deployable:
        text += " All settings use gold labels, which nobody has for a new question."
    if baseline is None or is_level:
        return Finding(text, (best.index,))
    words = f"{family.cells[baseline.index].labels.words}, {role}"
    if _is_simplest(family, best, cost):
        text += " It also costs the least of those with passages."
    gain, p_value = _format_gain(family, baseline), _format_p(baseline)
    more = "less" if metric.lower_is_better else "more"
    if baseline.is_better:
        text += f" That is {gain} {more} than {words}, has ({p_value})."
    elif baseline.is_significant:
        text += (
            f" Paired by question, it is worse than {words}: "
            f"{_format_difference(family, baseline)}, {p_value}."
        )
    else:
        text += (
            f" That is not significantly {more} than {words}: {gain}, "
            f"{p_value.removesuffix(', not significant')}."
        )
        text += _format_advice(family, best, baseline, role, cost)
    return Finding(
        text,
        (best.index, baseline.index),
        _get_interval(family, baseline),
        baseline.is_significant,
    )


def _format_advice(
    family: Family, best: Best, baseline: BestComparison, role: str, cost: str
) -> str:
    """Say that the simplest setting is to be preferred if the questions do not tell it from the
    best one, which costs more.

    One without passages is not preferred: questions that it answers right may have been left out.
    """
    ratio = _compare_costs(family, best, baseline, cost)
    is_usable = (
        best.is_deployable
        and role == _SIMPLEST
        and family.cells[baseline.index].labels.shows_passages
    )
    if not is_usable or ratio is None or ratio < _MUCH_MORE:
        return ""
    return (
        f" {baseline.comparison.n:,} questions do not tell them apart, and it costs {ratio:.1f} "
        "times as much."
    )


def _compare_costs(family: Family, best: Best, other: BestComparison, cost: str) -> float | None:
    """Return how many times as much as another setting the best one costs, or None if that is not
    known.
    """
    own, less = _get_cost(family, best.index, cost), _get_cost(family, other.index, cost)
    return own / less if own is not None and less else None


def _are_level(family: Family, best: Best, tied: Sequence[BestComparison]) -> bool:
    """Return whether several settings of the best one's kind have its value, and none has another
    or cannot be compared.
    """
    kind = [cell for cell in family.cells if not best.is_deployable or not cell.labels.uses_gold]
    return len(kind) > 1 and 1 + len(best.equal) + len(tied) == len(kind)


def _describe_cost(
    family: Family, best: Best, baseline: BestComparison | None, role: str, cost: str
) -> str:
    """Say over how many questions the headline is, and what the best setting costs for each."""
    cell = family.cells[best.index]
    text = f"{cell.compute_interval(family.metric.name, family.seed).n:,} questions"
    metric = cell.find_metric(cost)
    if metric is None or _get_cost(family, best.index, cost) is None:
        return text
    text += (
        f" · {metric.heading} per question: "
        f"{metric.format_mean(cell.compute_interval(cost, family.seed))}"
    )
    ratio = _compare_costs(family, best, baseline, cost) if baseline else None
    return text if ratio is None else f"{text}, {ratio:.1f} times that of {role}"


def _describe_cheaper(
    family: Family, best: Best, baseline: BestComparison | None, cost: str, is_filtered: bool
) -> Iterator[Finding]:
    """Name the cheapest setting that is not significantly worse than the best one, if it is not the
    baseline.
    """
    own = _get_cost(family, best.index, cost)
    close = [
        (less, other)
        for other in best.comparisons
        if not other.is_better
        and not (is_filtered and not family.cells[other.index].labels.shows_passages)
        and (less := _get_cost(family, other.index, cost)) is not None
        and own
        and less < own
    ]
    if not close or not own:
        return
    less, other = min(close, key=lambda entry: (entry[0], entry[1].index))
    if other is baseline:
        return
    yield Finding(
        "The cheapest setting that is not significantly worse is "
        f"{family.cells[other.index].labels.words}, at {100 * less / own:.0f} % of the cost; the "
        f"best is {_format_gain(family, other)} better ({_format_p(other)}).",
        (best.index, other.index),
        _get_interval(family, other),
    )


def _describe_ceiling(family: Family, best: Best) -> Iterator[Finding]:
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
    compared = None if ceiling is None else family.compare(ceiling, best.index)
    if ceiling is None or compared is None:
        return
    comparison = BestComparison(ceiling, *compared, family.metric.direction)
    if comparison.gain <= 0:
        return
    value = cells[ceiling].format_metric(family.metric.name, family.seed)
    certainty = f"{_format_gain(family, comparison)} better than the best setting without"
    yield Finding(
        f"With gold labels, {cells[ceiling].labels.words} reaches {value}, {certainty} "
        f"({_format_p(comparison)}).",
        (ceiling, best.index),
        _get_interval(family, comparison),
        comparison.is_significant,
    )


def _describe_factor(family: Family, comparisons: FactorComparisons, best: Best) -> Finding:
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
    return Finding(text, indices, _get_interval(family, comparison), pair.is_significant)


def _turn_pair(family: Family, pair: Pair) -> tuple[tuple[int, int], BestComparison]:
    """Return the indices of a pair, those of the higher cell first, and the comparison in this
    order.
    """
    first, second = pair.indices
    indices = (second, first) if pair.comparison.difference < 0 else (first, second)
    compared = family.compare(*indices)
    assert compared is not None
    return indices, BestComparison(indices[1], *compared)


def _describe_pair(family: Family, title: str, pair: Pair) -> str:
    """Say by how much one cell of a pair is higher than the other, and what both share."""
    indices, comparison = _turn_pair(family, pair)
    higher, lower, shared = _name_pair(title, *(family.cells[index] for index in indices))
    return (
        f"{_format_difference(family, comparison)} higher {higher} than {lower} ({shared}; "
        f"{_format_p(comparison)})"
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
    shared = one.words.removeprefix(one.line).strip().removeprefix("on ")
    return f"with {one.line}", f"with {other.line}", shared


def _get_interval(family: Family, other: BestComparison) -> tuple[float, ...]:
    scale, comparison = get_unit_scale(family.metric), other.comparison
    return tuple(
        scale * value for value in (comparison.difference, comparison.low, comparison.high)
    )


def _format_gain(family: Family, other: BestComparison) -> str:
    """Format by how much the best setting is better, so that the number is positive where lower is
    better too.
    """
    return _format_difference(family, other, other.direction)


def _format_difference(family: Family, other: BestComparison, direction: int = 1) -> str:
    """Format a difference, or the opposite one if `direction` is -1, with its interval, in points
    for shares.
    """
    difference, *bounds = (direction * value + 0.0 for value in _get_interval(family, other))
    low, high = sorted(bounds)
    is_share = family.metric.unit == "percent"
    unit, digits = (" points", 1) if is_share else ("", family.metric.digits)
    return f"{difference:.{digits}f}{unit} [{low:.{digits}f}, {high:.{digits}f}]"


def _format_p(other: BestComparison) -> str:
    """Format the p-value of a comparison alone and after the correction, if the correction changes
    it.
    """
    alone, corrected = (
        text if text.startswith("<") else f"= {text}"
        for text in map(format_p, (other.comparison.p_value, other.adjusted_p_value))
    )
    verdict = "" if other.is_significant else ", not significant"
    second = "" if alone == corrected else f", {corrected.removeprefix('= ')} corrected"
    return f"p {alone}{second}{verdict}"
