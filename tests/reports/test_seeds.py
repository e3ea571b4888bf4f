"""The spread over training seeds."""

from dataclasses import replace

from winnow.metrics.intervals import UNDEFINED
from winnow.metrics.judged import JudgedAccuracy
from winnow.reports.cells import CellResult
from winnow.reports.comparisons import build_comparison_tables
from winnow.reports.family import Family
from winnow.reports.report import build_report
from winnow.reports.seeds import build_seeds_table
from winnow.testing import make_cell_result


def cell(seed: str, strategy: str, ems: list[float]) -> CellResult:
    """A cell of one training seed."""
    one = make_cell_result(strategy, 5, "g", ems)
    return replace(one, labels=replace(one.labels, seed=seed))


CELLS = [
    cell("1", "a", [1, 1, 0, 0]),
    cell("2", "a", [1, 1, 1, 0]),
    cell("3", "a", [1, 0, 0, 0]),
    cell("1", "b", [1, 1, 1, 1]),
]


def test_the_spread_is_over_trainings() -> None:
    """EM 50, 75 and 25 %: mean 50, standard deviation 25; a cell with one training has
    no spread.
    """
    table = build_seeds_table(CELLS, 0)
    assert table is not None
    assert [row[:6] for row in table.rows] == [
        ["a", "5", "g", "1, 2, 3", "4", "50.0 ± 25.0 [25.0, 75.0]"]
    ]
    assert build_seeds_table(CELLS[2:], 0) is None
    assert build_seeds_table([cell("", "a", [1, 1]), cell("", "a", [0, 0])], 0) is None


def test_the_spread_is_on_common_questions() -> None:
    """A closed-book filter by the trained reader leaves each training other questions."""
    fewer = CELLS[1].select_questions({"q1", "q2", "q3"})
    table = build_seeds_table([CELLS[0], fewer], 0)
    assert table is not None
    assert table.rows[0][3:6] == ["1, 2", "3", "50.0 ± 23.6 [33.3, 66.7]"]


def test_a_metric_is_spread_over_the_questions_where_all_have_it() -> None:
    """Verdicts 1, 1, 0, 0 and 1, 1, none, none: no spread on the two common ones."""
    metric = JudgedAccuracy("j", "judged", template="{question} {answers} {answer}")
    rows = ([1.0, 1.0, 0.0, 0.0], [1.0, 1.0, None, None])
    cells = [
        replace(
            cell(seed, "a", [1, 1, 0, 0]),
            metrics=(metric,),
            judged={"j": [None if value is None else {"j": value} for value in own]},
        )
        for seed, own in zip("12", rows, strict=True)
    ]
    table = build_seeds_table(cells, 0)
    assert table is not None
    assert table.rows[0][4:] == ["4", "100.0 ± 0.0 [100.0, 100.0] (n 2)"]


def test_a_cell_that_rests_on_no_training_is_compared_with_every_seed() -> None:
    """It has no seed of its own."""
    baseline = cell("", "b", [1, 0, 0, 1])
    (table,) = build_comparison_tables(Family([*CELLS[:3], baseline], 0))
    assert [row[:2] for row in table.rows] == [["b", f"a (seed {n})"] for n in (1, 2, 3)]


def test_only_cells_of_one_seed_are_compared() -> None:
    """Trainings are no settings: their spread has a table of its own."""
    (table,) = build_comparison_tables(Family(CELLS, 0))
    assert [row[:3] for row in table.rows] == [["b (seed 1)", "a (seed 1)", "k 5, g"]]


def test_the_page_shows_both() -> None:
    """The seed is a column of the tables of all cells."""
    page = build_report("t", Family(CELLS, 0), {})
    tables = {table.title: table for table in page.tables}
    assert tables["All questions"].columns[3] == "seed"
    assert "Spread over training seeds" in tables


def test_a_metric_that_a_model_lacks_has_no_spread() -> None:
    """The row names all seeds, so that its values must be of all."""
    cells = [cell(seed, "concatenation", [1, 0]) for seed in "123"]
    voting = [
        replace(cell(seed, "post_fusion", [1, 0]), labels=one.labels)
        for seed, one in zip("12", cells, strict=False)
    ]
    table = build_seeds_table([*voting, cells[2]], 0)
    assert table is not None
    (row,) = table.rows
    assert row[3] == "1, 2, 3"
    assert row[table.columns.index("%NM of pools")] == UNDEFINED
    assert row[table.columns.index("EM")].startswith("50.0")


def test_a_ratio_has_the_range_of_its_denominators() -> None:
    """One, two and three pools with a right answer."""
    cells = [
        replace(one, labels=replace(one.labels, seed=f"{number}"))
        for number in (1, 2, 3)
        for one in [make_cell_result("post_fusion", 5, "g", [1.0] * number + [0.0] * (4 - number))]
    ]
    table = build_seeds_table(cells, 0)
    assert table is not None
    assert any(text.endswith("(n 1–3)") for text in table.rows[0])
