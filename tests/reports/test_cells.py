"""Cells keep their labels when rows are chosen."""

from winnow.reports.cells import CellResult


def test_only_keeps_labels() -> None:
    """Rows are filtered, labels stay."""
    cell = CellResult("s", 5, "g", [{"a": 1}, {"a": 2}]).only(lambda row: row["a"] == 2)
    assert (cell.strategy, cell.k, cell.gold, cell.rows) == ("s", 5, "g", [{"a": 2}])
