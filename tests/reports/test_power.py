"""The report on power."""

import pytest

from winnow.reports.power import build_power_report, choose_sizes
from winnow.testing import make_cell_result

CELLS = [
    make_cell_result("concatenation", 5, "retrieved", [float(n < 4) for n in range(40)]),
    make_cell_result("post_fusion", 5, "retrieved", [float(n < 30) for n in range(40)]),
    make_cell_result("pf_concat", 5, "retrieved", [float(n < 29) for n in range(40)]),
]


def test_sizes_reach_ten_times_as_far() -> None:
    """And contain the number of questions itself."""
    assert choose_sizes(60) == [50, 60, 100, 200, 500]
    assert choose_sizes(3) == [3]


def test_large_differences_need_few_questions() -> None:
    """+65 points are stable and shown with 50; 2.5 points (one question of 40) are shown with 500,
    the largest first.
    """
    page = build_power_report("t", CELLS, {}, 0, [50, 100, 200, 500], [10.0])
    sizes, sets, order, significant, planned = page.tables
    assert [row[:2] for row in sizes.rows] == [
        ["post_fusion", "concatenation"], ["pf_concat", "concatenation"],
        ["pf_concat", "post_fusion"],
    ]  # fmt: skip
    assert sizes.rows[0][-2:] == ["50", "50"]
    assert sizes.rows[2][-2:] == [
        "100",
        "500",
    ]  # 0.975**100 is 8 %: so many draws are ties, which count half
    assert order.columns[3:] == significant.columns[3:] == ["50", "100", "200", "500"]
    assert significant.rows[0][3] == "100"
    ranges = [[float(end) for end in text.split(" to ")] for text in sets.rows[0][3:]]
    assert all(low < 65 < high for low, high in ranges)
    widths = [high - low for low, high in ranges]
    assert widths == sorted(widths, reverse=True)
    error = (
        0.65 * 0.35 * (1 / 40 + 1 / 500)
    ) ** 0.5  # 26 of 40 are won, none lost; of these and of 500 others
    assert widths[-1] == pytest.approx(2 * 1.96 * 100 * error, rel=0.1)
    low, high = (float(end) for end in sets.rows[2][3].split(" to "))
    assert low < 0 < high  # one question of 40 differs: with 50 others, the set decides
    assert planned.columns[3:] == ["10"]
    assert (
        planned.rows[2][3] == "80"
    )  # 7.906 discordant questions are needed, and 10 % are discordant if the effect is that
    assert len(page.plots[0].rows) == 3 * 4


def test_equal_cells_say_that_there_is_nothing() -> None:
    """No table rather than a table of noughts."""
    page = build_power_report("t", [CELLS[0], CELLS[0]], {}, 0, [50], [1.0])
    assert page.tables == []
    assert "nothing to show" in page.notes[0]
