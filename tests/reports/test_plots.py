"""Plots as SVG."""

from winnow.reports.plots import plot_against_k, plot_against_position
from winnow.testing import make_cell_result

CELLS = [make_cell_result("concatenation", k, gold, [0, 1, 1]) for k in (1, 5) for gold in ("retrieved", "gold_first")]


def test_plots_are_svg_and_repeat() -> None:
    """Deterministic text without scripts or addresses to load."""
    one, two = (plot_against_k(CELLS, "em", "retrieved", 0) for _ in range(2))
    assert one == two
    assert one.startswith("<svg")
    assert "concatenation" in one
    assert "<script" not in plot_against_position(CELLS, 5, 0)
