"""The story of a sweep: the setting to use, how sure it is, what else matters, and the limits.

A headline names no setting whose prompts rest on gold labels: nobody has these for a new question.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from winnow.reports.best import Best, BestComparison, find_best, name_best
from winnow.reports.cells import get_common_values
from winnow.reports.comparisons import compare_by_factor
from winnow.reports.family import Family
from winnow.reports.page.findings import (
    Finding,
    describe_ceiling,
    describe_factor,
    format_difference,
    format_gain,
    format_pair_p,
    get_bounds,
)
from winnow.reports.page.limits import describe_limits

_SIMPLEST = "the simplest setting"
"""Name of the headline's baseline, unless costs are unknown or the best setting is the simplest."""
_MUCH_MORE = 1.1
"""Cost ratio from which the page prefers the simplest setting if it is not significantly worse."""


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
        """Return the index of the best setting, or None if the metric is undefined in all cells."""
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
        *describe_ceiling(family, best),
        *(describe_factor(family, one, best) for one in compare_by_factor(family) if one.pairs),
    ]
    return replace(story, findings=findings, limits=list(describe_limits(family, best)))


def build_headline(family: Family, cost: str = "tokens", selection: str = "") -> Story:
    """Build a story with only the headline and the best setting's cost, in far less time."""
    return _build_headline(family, _choose(family, cost), cost, selection)


Choice = tuple[Best, BestComparison | None, str]
"""The best setting, its comparison with the baseline, and what the baseline is called."""


def _choose(family: Family, cost: str) -> Choice | None:
    """Choose the best setting and baseline, or None if the metric is undefined in every cell."""
    leader = find_best(family)
    if leader is None:
        return None
    best = _take_cheapest(family, leader, cost)
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


def _count_defined(family: Family, index: int) -> int:
    return family.cells[index].compute_interval(family.metric.name, family.seed).n


def _get_cost(family: Family, index: int, cost: str) -> float | None:
    """Return the mean cost of a cell, or None if it is undefined."""
    cell = family.cells[index]
    if cell.find_metric(cost) is None:
        return None
    interval = cell.compute_interval(cost, family.seed)
    return interval.mean if interval.n else None


def _get_costs(family: Family, first: int, second: int, cost: str) -> tuple[float, float] | None:
    """Return the mean costs of two cells over their common questions, or None if unknown."""
    cells = family.cells[first], family.cells[second]
    if any(cell.find_metric(cost) is None for cell in cells):
        return None
    values = get_common_values(*cells, cost, family.seed)
    return values and (float(values[0].mean()), float(values[1].mean()))


def _take_cheapest(family: Family, best: Best, cost: str) -> Best:
    """Return the best cell as the cheapest of those with its value."""
    tied_indices = [
        other.index
        for other in best.comparisons
        if _get_mean(family, other.index) == _get_mean(family, best.index)
    ]
    level = (best.index, *best.equal, *tied_indices)
    extra = {
        index: costs[1] - costs[0]
        for index in level
        if (costs := _get_costs(family, best.index, index, cost)) is not None
    }
    return (
        find_best(family, min(extra, key=lambda one: (extra[one], one), default=best.index)) or best
    )


def _is_simplest(family: Family, best: Best, cost: str) -> bool:
    """Return whether the best setting is the cheapest of the compared ones with passages."""
    costs = [
        _get_costs(family, best.index, other.index, cost)
        for other in best.comparisons
        if family.cells[other.index].labels.shows_passages
    ]
    has_passages = family.cells[best.index].labels.shows_passages
    return (
        has_passages
        and bool(costs)
        and all(pair is not None and pair[0] <= pair[1] for pair in costs)
    )


def _choose_baseline(family: Family, best: Best, cost: str) -> tuple[BestComparison | None, str]:
    """Return the comparison with the simplest setting, and what that is called.

    The simplest setting is the cheapest with passages, or one without if there is no other. If that
    is the best one itself, or if no cost is known, it is compared with the next highest.
    """
    costs = {
        other.index: _get_costs(family, best.index, other.index, cost) for other in best.comparisons
    }
    if not costs:
        return None, ""
    if _is_simplest(family, best, cost) or None in costs.values():
        means = [family.metric.direction * _get_mean(family, index) for index in costs]
        next_best = max(
            zip(best.comparisons, means, strict=True), key=lambda one: (one[1], -one[0].index)
        )[0]
        return next_best, f"the next {name_best(family.metric)}"

    def rank(other: BestComparison) -> tuple[bool, float, int]:
        own, others = costs[other.index] or (0.0, 0.0)
        return not family.cells[other.index].labels.shows_passages, others - own, other.index

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
    tied_comparisons = [
        other for other in best.comparisons if _get_mean(family, other.index) == interval.mean
    ]
    is_level = _are_level(family, best, tied_comparisons)
    if is_level:
        text = (
            f"All settings{kind.removeprefix(' of the settings')} have the same {metric.heading}: "
            f"{value}."
        )
        if _get_cost(family, best.index, cost) is not None:
            text += f" The one with the lowest cost is {cell.labels.words}."
    else:
        ties_note = (
            f" (as have {len(tied_comparisons)} with other answers)" if tied_comparisons else ""
        )
        text = (
            f"{cell.labels.words} has the {name_best(metric)} {metric.heading}{kind}{ties_note}: "
            f"{value}."
        )
    if len({other.labels.questions for other in family.cells}) > 1:
        text += (
            " Some cells answer other questions; it is compared with those that answer the same."
        )
    elif len({frozenset(other.get_values(metric.name)) for other in family.cells}) > 1:
        text += (
            " Its value is over its own questions for which it is defined, which are not the same "
            "in all cells; comparisons are over common questions."
        )
    if not best.is_deployable:
        text += " All settings use gold labels, which nobody has for a new question."
    if baseline is None or is_level:
        return Finding(text, (best.index,))
    words = f"{family.cells[baseline.index].labels.words}, {role}"
    if _is_simplest(family, best, cost):
        text += " It also costs the least of those with passages."
    gain, p_value = format_gain(family, baseline), format_pair_p(baseline)
    more = "less" if metric.lower_is_better else "more"
    if baseline.is_better:
        text += f" That is {gain} {more} than {words}, has ({p_value})."
    elif baseline.is_significant:
        text += (
            f" Paired by question, it is worse than {words}: "
            f"{format_difference(family, baseline)}, {p_value}."
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
        get_bounds(family, baseline),
        baseline.is_significant,
    )


def _format_advice(
    family: Family, best: Best, baseline: BestComparison, role: str, cost: str
) -> str:
    """Advise the simplest setting if the questions do not separate it from the costlier best one.

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
    """Return how many times as much as another setting the best one costs, or None if unknown."""
    costs = _get_costs(family, best.index, other.index, cost)
    return costs[0] / costs[1] if costs and costs[1] else None


def _are_level(family: Family, best: Best, tied: Sequence[BestComparison]) -> bool:
    """Return whether the best setting's kind has several settings, all known to share its value."""
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
    """Name the cheapest setting not significantly worse than the best unless it is the baseline."""
    close = [
        (costs[1] / costs[0], other)
        for other in best.comparisons
        if not other.is_better
        and not (is_filtered and not family.cells[other.index].labels.shows_passages)
        and (costs := _get_costs(family, best.index, other.index, cost))
        and costs[1] < costs[0]
    ]
    if not close:
        return
    share, other = min(close, key=lambda entry: (entry[0], entry[1].index))
    if other is baseline:
        return
    yield Finding(
        "The cheapest setting that is not significantly worse is "
        f"{family.cells[other.index].labels.words}, at {100 * share:.0f} % of the cost; the "
        f"best is {format_gain(family, other)} better ({format_pair_p(other)}).",
        (best.index, other.index),
        get_bounds(family, other),
    )
