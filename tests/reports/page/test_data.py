"""What the page's script reads."""

from tests.reports.page.page_browser import CELLS, build_page
from winnow.testing import make_cell_result


def test_the_frontier_has_no_cell_with_gold_labels() -> None:
    """By hand: 4 and 1 of 6 are right without them, at the same cost; the cell that uses them, all right, does not count."""
    cells = [CELLS[0], make_cell_result("concatenation", 5, "gold_first", [1.0] * 6), CELLS[2]]
    ((cost, best, low, high),) = build_page(cells)._build_data()["frontier"]
    assert (cost, round(best, 1)) == (104.5, 66.7)
    assert low < best < high
