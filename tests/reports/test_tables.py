"""Tables of cells."""

from dataclasses import replace

from winnow.reports.tables import TableView, build_matrix_table, build_metrics_table
from winnow.testing import make_cell_result


def test_columns_that_are_equal_in_all_rows_are_named_instead() -> None:
    """The first column stays, and a table of one row or without other columns stays as it is."""
    table = TableView(
        "t",
        "Caption.",
        ["strategy", "k", "EM", "gold"],
        [["a", "5", "1", "x"], ["a", "5", "2", "x"]],
    )
    short = table.drop_constant_columns()
    assert (short.columns, short.rows) == (["strategy", "EM"], [["a", "1"], ["a", "2"]])
    assert short.caption == "Caption. Equal in all rows: k 5; gold x."
    assert replace(table, subject=["k"]).drop_constant_columns().columns == ["strategy", "k", "EM"]
    assert TableView("t", "c", ["a", "b"], [["1", "2"]]).drop_constant_columns().columns == [
        "a",
        "b",
    ]
    same = TableView("t", "c", ["a", "b"], [["1", "2"], ["1", "2"]])
    assert same.drop_constant_columns() is same


def test_a_table_keeps_what_it_is_about() -> None:
    """Strategies that give the same answers at k = 1 are a result."""
    cells = [make_cell_result(name, k, "g", [1.0, 0.0]) for name in ("a", "b") for k in (1, 5)]
    matrix = build_matrix_table(cells, 0).drop_constant_columns()
    assert matrix.columns == ["strategy", "k 1, g", "k 5, g"]
    assert "EM" in build_metrics_table("t", "c", cells, 0).drop_constant_columns().columns


def test_no_cell_of_the_matrix_hides_another() -> None:
    """Cells that no label distinguishes have numbered rows."""
    cells = [make_cell_result("a", k, "g", [em] * 10) for k, em in ((5, 1.0), (10, 0.0), (5, 0.0))]
    table = build_matrix_table(cells, 0)
    assert [row[0] for row in table.rows] == ["a", "a (2)"]
    assert [[text.partition(" ")[0] for text in row[1:]] for row in table.rows] == [
        ["100.0", "0.0"],
        ["0.0", ""],
    ]
