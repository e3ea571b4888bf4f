"""A metric against a cost, and the best value that each cost buys, with its bootstrap band."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from winnow.metrics.base import MeanMetric
from winnow.metrics.intervals import compute_bounds, is_fraction, widen_bounds
from winnow.reports.cells import CellResult, have_same_questions
from winnow.reports.plots import Plot, build_plot, describe_axis, encode_axis
from winnow.sweeps.labels import CellLabels

if TYPE_CHECKING:
    import altair as alt

_RESAMPLES, _CHUNK_VALUES = 1000, 2_000_000
_LOG_RATIO = 10
"""Ratio of the highest to the lowest cost from which the axis is logarithmic."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """The best mean of a metric that each cost buys: the highest, or the lowest if lower is better.

    Attributes:
        costs: (costs,) Distinct mean costs of the cells, in increasing order.
        best: (costs,) Best mean of the cells that cost at most as much.
        low: (costs,) Lower bound of the 95 % bootstrap interval of that best mean (a share of
            hardly any or nearly all questions has Wilson's).
        high: (costs,) Upper bound. The band holds for the maximum over cells in resampled
            questions, which the selection of the best cell raises, as it raises the frontier
            itself.
        cells: Indices of the cells on the frontier: no cheaper cell, and no equally cheap one, is
            as good or better.
    """

    costs: NDArray[np.float64]
    best: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    cells: tuple[int, ...]


def compute_frontier(
    costs: Sequence[float], values: NDArray[np.float64], seed: int, direction: int = 1
) -> Frontier:
    """Compute the frontier of cells that answer the same questions.

    Args:
        costs: Mean cost of each cell.
        values: (cells, questions) Value of each question.
        seed: Seed of the bootstrap, which resamples the questions of all cells together.
        direction: Sign of an improvement of the values (see `Metric.direction`).
    """
    means = values.mean(axis=1)
    rng, questions = np.random.default_rng(seed), values.shape[1]
    chunk = max(1, _CHUNK_VALUES // questions)
    sums = [
        rng.multinomial(
            questions, np.full(questions, 1 / questions), min(chunk, _RESAMPLES - start)
        )
        @ values.T
        for start in range(0, _RESAMPLES, chunk)
    ]
    resampled_means = np.concatenate(sums) / questions
    steps, frontier_cells = sorted(set(costs)), list[int]()
    best, bounds = list[float](), list[tuple[float, float]]()
    for cost in steps:
        affordable = [index for index, own in enumerate(costs) if own <= cost]
        winner = max(affordable, key=lambda index: direction * means[index])
        if not best or direction * means[winner] > direction * best[-1]:
            frontier_cells.append(winner)
        best.append(float(means[winner]))
        own_bounds = compute_bounds(
            direction * (direction * resampled_means[:, affordable]).max(axis=1)
        )
        bounds.append(
            widen_bounds(own_bounds, best[-1], values[[winner]])
            if is_fraction(values)
            else own_bounds
        )
    low, high = np.array(bounds).T
    return Frontier(np.array(steps), np.array(best), low, high, tuple(frontier_cells))


def find_frontier(
    cells: Sequence[CellResult], metric: str, costs: Sequence[float], seed: int
) -> Frontier | None:
    """Compute the frontier of cells with these costs, or return None if it is not defined.

    It is for a metric that is a mean over questions, and needs the same questions in all cells,
    each with a value.
    """
    measure = cells[0].find_metric(metric) if len(cells) > 1 else None
    if not isinstance(measure, MeanMetric) or not have_same_questions(cells):
        return None
    values = np.array([cell.compute_values(metric) for cell in cells])
    return (
        None if np.isnan(values).any() else compute_frontier(costs, values, seed, measure.direction)
    )


def plot_frontier(
    cells: Sequence[CellResult], metric: str, cost: str, gold: str, seed: int
) -> Plot | None:
    """Plot a metric against a cost at one placement of the gold passage, with the cells' frontier.

    Cells without passages have no placement and belong to all. Without a frontier (see
    `find_frontier`), only the cells are plotted.

    Args:
        cells: Cells of the report.
        metric: Name of the metric.
        cost: Name of the metric of the cost, such as "tokens".
        gold: Name of the placement.
        seed: Seed of the bootstrap.

    Returns:
        The plot, or None if fewer than two cells have a cost and a value.
    """
    candidate_cells = [cell for cell in cells if cell.labels.gold == gold or not cell.labels.k]
    plotted = [
        cell
        for cell in candidate_cells
        if all(cell.compute_interval(name, seed).n for name in (metric, cost))
    ]
    if len(plotted) < 2:
        return None
    heading, unit, scale = describe_axis(plotted, metric)
    cost_heading, cost_unit, cost_scale = describe_axis(plotted, cost)
    costs = [cost_scale * cell.compute_interval(cost, seed).mean for cell in plotted]
    intervals = [cell.compute_interval(metric, seed) for cell in plotted]
    names = [
        f"{cell.labels.line}, k = {cell.labels.k}" if cell.labels.k else cell.labels.line
        for cell in plotted
    ]
    frontier = find_frontier(plotted, metric, costs, seed)
    title = f"{heading} against {cost_heading} (gold: {gold})"
    on_frontier = set(frontier.cells) if frontier is not None else set()
    rows = [
        (
            name,
            x,
            scale * interval.mean,
            scale * interval.low,
            scale * interval.high,
            "yes" if index in on_frontier else "no",
        )
        for index, (name, x, interval) in enumerate(zip(names, costs, intervals, strict=True))
    ]
    chart = _draw(rows, [cell.labels for cell in plotted], frontier, cost_unit, unit, scale)
    return build_plot(
        title, ("cell", cost_unit, unit, "low", "high", "on the frontier"), rows, chart
    )


def _draw(
    rows: Sequence[tuple[str, float, float, float, float, str]],
    labels: Sequence[CellLabels],
    frontier: Frontier | None,
    cost_unit: str,
    unit: str,
    scale: float,
) -> "alt.LayerChart | alt.FacetChart":
    """Draw the cells with their intervals and, if there is one, the frontier with its band."""
    import altair as alt

    names = ("cell", "cost", "value", "low", "high")
    cells = [
        {
            **dict(zip(names, row, strict=False)),
            "line": label.line,
            "k": f"k={label.k}" if label.k else "",
        }
        for row, label in zip(rows, labels, strict=True)
    ]
    costs = [row[1] for row in rows]
    is_wide = min(costs) > 0 and max(costs) / min(costs) >= _LOG_RATIO
    x = alt.X(
        **encode_axis(
            "cost", cost_unit, scale=alt.Scale(type="log" if is_wide else "linear", zero=False)
        )
    )
    y = alt.Y(**encode_axis("value", unit, scale=alt.Scale(zero=True)))
    order = list(dict.fromkeys(label.line for label in labels))
    layers: list[alt.Chart] = []
    if frontier is not None:
        band = [
            {
                "cost": float(cost),
                "value": scale * float(best),
                "low": scale * float(low),
                "high": scale * float(high),
            }
            for cost, best, low, high in zip(
                frontier.costs, frontier.best, frontier.low, frontier.high, strict=True
            )
        ]
        base = alt.Chart(alt.InlineData(band)).encode(x=x)
        area = base.mark_area(interpolate="step-after", opacity=0.2, color="gray")
        layers.append(area.encode(y=alt.Y(**encode_axis("low", unit)), y2="high:Q"))
        layers.append(base.mark_line(interpolate="step-after", color="gray").encode(y=y))
    color = alt.Color("line", type="nominal", sort=order)
    base = alt.Chart(alt.InlineData(cells)).encode(x=x, color=color)
    layers.append(base.mark_rule().encode(y=alt.Y(**encode_axis("low", unit)), y2="high:Q"))
    layers.append(base.mark_point(filled=True, size=55, opacity=1).encode(y=y))
    layers.append(base.mark_text(align="left", dx=6, dy=-6).encode(y=y, text="k:N"))
    return alt.layer(*layers)
