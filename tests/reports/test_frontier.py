"""A metric against its cost: which cells no cheaper one reaches, and how sure that is."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from winnow.metrics.correctness import ExactMatch
from winnow.metrics.cost import Consumption
from winnow.metrics.replies import EmptyReplies
from winnow.reports.cells import CellResult
from winnow.reports.frontier import compute_frontier, plot_frontier
from winnow.sweeps.labels import CellLabels
from winnow.testing import make_sample

METRICS = (ExactMatch("em", "EM"), Consumption("tokens", "tokens", "number", 1, of="tokens"))


def _build_cell(
    name: str, tokens: int, ems: list[int], gold: str = "retrieved", k: int = 3
) -> CellResult:
    samples = [
        make_sample("x" if em else "y", n, tokens_in=tokens, tokens_out=0)
        for n, em in enumerate(ems)
    ]
    return CellResult(CellLabels(name, k, gold), samples, METRICS)


def test_a_cell_is_on_the_frontier_if_no_cheaper_one_is_as_good() -> None:
    """By hand: the second cell costs more and is worse; of two at the same cost the better one
    counts.
    """
    values = np.array([[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0]], float)
    frontier = compute_frontier([10, 20, 30, 30, 90], values, 0)
    assert frontier.cells == (0, 3)
    assert frontier.costs.tolist() == [10, 20, 30, 90]
    assert frontier.best.tolist() == [0.25, 0.25, 0.75, 0.75]
    assert (frontier.low <= frontier.best).all()
    assert (frontier.best <= frontier.high).all()
    rng = np.random.default_rng(0)
    first = (rng.random(400) < 0.5).astype(float)
    both, alone = (
        compute_frontier([1.0] * len(rows), np.array(rows), 0)
        for rows in ([first, 1 - first], [first])
    )
    assert both.high[0] >= alone.high[0], "the maximum over all cells that the cost buys"
    assert both.low[0] > alone.low[0]
    later = compute_frontier([1.0, 2.0], np.array([first, 1 - first]), 0)
    assert (later.low[1], later.high[1]) == (
        both.low[0],
        both.high[0],
    ), "also where the second cell is not on the frontier"


def test_where_lower_is_better_the_frontier_falls() -> None:
    """That of the negated values, negated."""
    values = np.random.default_rng(2).random((4, 50))
    costs = [1.0, 2.0, 3.0, 4.0]
    falling, rising = compute_frontier(costs, values, 0, -1), compute_frontier(costs, -values, 0)
    assert falling.best.tolist() == (-rising.best).tolist()
    assert falling.cells == rising.cells
    assert falling.low.tolist() == pytest.approx((-rising.high).tolist())
    assert falling.high.tolist() == pytest.approx((-rising.low).tolist())
    assert (np.diff(falling.best) <= 0).all()


def test_the_band_covers_the_best_value_that_a_cost_buys() -> None:
    """One cell: the percentile interval of its mean. Of drawn cells that are equally good, the
    maximum is above 1 / 2.
    """
    rng = np.random.default_rng(1)
    values = (rng.random((1, 400)) < 0.3).astype(float)
    frontier = compute_frontier([1.0], values, 0)
    error = 1.96 * np.sqrt(0.3 * 0.7 / 400)
    assert frontier.low[0] == pytest.approx(values.mean() - error, abs=0.01)
    assert frontier.high[0] == pytest.approx(values.mean() + error, abs=0.01)
    covered = 0
    for seed in range(200):
        one = compute_frontier(
            [1.0], (np.random.default_rng(seed).random((1, 200)) < 0.5).astype(float), seed
        )
        covered += bool(one.low[0] <= 0.5 <= one.high[0])
    assert covered >= 180
    assert compute_frontier([1.0], values, 0).low.tolist() == frontier.low.tolist()
    never = compute_frontier([1.0], np.zeros((1, 150)), 0)
    assert (never.low[0], round(never.high[0], 3)) == (
        0.0,
        0.025,
    ), "as Wilson's interval of 0 of 150"


def test_cells_of_a_placement_and_those_without_passages_are_plotted() -> None:
    """With their costs, values and whether they are on the frontier; a logarithmic axis where costs
    differ ten times.
    """
    cells = [
        _build_cell("closed_book", 10, [0, 0, 0, 1], gold="none", k=0),
        _build_cell("concatenation", 100, [0, 1, 0, 1]),
        _build_cell("react", 900, [0, 1, 0, 1]),
        _build_cell("concatenation", 100, [1, 1, 1, 1], gold="gold_first"),
    ]
    plot = plot_frontier(cells, "em", "tokens", "retrieved", 0)
    assert plot is not None
    assert plot.title == "EM against tokens (gold: retrieved)"
    assert plot.columns == ("cell", "tokens", "EM, %", "low", "high", "on the frontier")
    assert [(row[0], row[1], row[2], row[5]) for row in plot.rows] == [
        ("closed_book", 10.0, 25.0, "yes"),
        ("concatenation, k = 3", 100.0, 50.0, "yes"),
        ("react, k = 3", 900.0, 50.0, "no"),
    ]
    area, step, *_ = plot.chart["layer"]
    assert area["encoding"]["x"]["scale"]["type"] == "log"
    (values,) = [data for data in plot.chart["datasets"].values() if "line" not in data[0]]
    assert [(value["cost"], value["value"]) for value in values] == [
        (10.0, 25.0),
        (100.0, 50.0),
        (900.0, 50.0),
    ]
    assert step["mark"]["interpolate"] == "step-after"
    assert plot.render_svg().startswith("<svg")


def test_cells_of_other_questions_have_no_frontier() -> None:
    """They are plotted; a single cell is no plot."""
    cells = [_build_cell("a", 10, [1, 0]), _build_cell("b", 20, [1, 1, 0])]
    plot: Any = plot_frontier(cells, "em", "tokens", "retrieved", 0)
    assert [row[5] for row in plot.rows] == ["no", "no"]
    assert len(plot.chart["layer"]) == 3, "intervals, points and texts alone"
    undefined = [_build_cell("a", 10, [1, 0]), _build_cell("b", 20, [1, 1])]
    undefined[0]._values["em"] = np.array([1.0, np.nan])
    plot = plot_frontier(undefined, "em", "tokens", "retrieved", 0)
    assert [row[5] for row in plot.rows] == ["no", "no"], "a question without a value"
    ratio = [
        replace(cell, metrics=[EmptyReplies("empty", "empty"), *METRICS]) for cell in cells[:1] * 2
    ]
    plot = plot_frontier(ratio, "empty", "tokens", "retrieved", 0)
    assert [row[5] for row in plot.rows] == [
        "no",
        "no",
    ], "a ratio of sums is no mean over questions"
    assert plot_frontier(cells[:1], "em", "tokens", "retrieved", 0) is None
    assert (
        plot_frontier(
            [replace(cells[0]), _build_cell("c", 1, [1], gold="gold_last")],
            "em",
            "tokens",
            "gold_last",
            0,
        )
        is None
    )


def test_the_plot_has_the_direction_and_the_units_of_its_metrics() -> None:
    """Shares in percent on both axes; two cells are enough; a free cell has a linear axis; lower
    may be better.
    """
    cells = [_build_cell("a", 10, [1, 0]), _build_cell("b", 20, [1, 1])]
    plot = plot_frontier(cells, "em", "tokens", "retrieved", 0)
    assert plot is not None
    assert [row[5] for row in plot.rows] == ["yes", "yes"]
    intervals = [cell.compute_interval("em", 0) for cell in cells]
    assert [row[3:5] for row in plot.rows] == [(100 * one.low, 100 * one.high) for one in intervals]
    turned = plot_frontier(cells, "tokens", "em", "retrieved", 0)
    assert turned is not None
    assert [row[1] for row in turned.rows] == [50.0, 100.0]
    free = plot_frontier([_build_cell("free", 0, [1, 0]), cells[1]], "em", "tokens", "retrieved", 0)
    assert free is not None
    assert free.chart["layer"][0]["encoding"]["x"]["scale"]["type"] == "linear"
    three = [
        _build_cell("a", 10, [0, 1, 1]),
        _build_cell("b", 20, [0, 0, 1]),
        _build_cell("c", 30, [1, 1, 1]),
    ]
    lower = [
        replace(cell, metrics=[replace(METRICS[0], lower_is_better=True), METRICS[1]])
        for cell in three
    ]
    falling = plot_frontier(lower, "em", "tokens", "retrieved", 0)
    assert falling is not None
    assert [row[5] for row in falling.rows] == ["yes", "yes", "no"]
