"""Cells: labels, rows and what a subset keeps."""

from winnow.metrics.intervals import UNDEFINED
from winnow.reports.cells import TableView
from winnow.testing import make_cell_result


def test_a_subset_keeps_labels_and_metrics() -> None:
    """Samples are selected together with their rows, judged ones and groups included."""
    cell = make_cell_result("s", 5, "g", [1.0, 0.0, 1.0])
    part = cell.filter_samples(lambda sample: sample.prediction.provenance == "distant")
    assert (part.labels, len(part.samples)) == (cell.labels, 1)
    assert part.get_values("em") == {"q1": 0.0}
    assert cell.format_metric("em", 0).startswith("66.7")
    assert cell.format_metric("no such metric", 0) == UNDEFINED


def test_columns_that_are_equal_in_all_rows_are_named_instead() -> None:
    """The first column stays, and a table of one row or without other columns stays as it is."""
    table = TableView("t", "Caption.", ["strategy", "k", "EM", "gold"], [["a", "5", "1", "x"], ["a", "5", "2", "x"]])
    short = table.drop_constant_columns()
    assert (short.columns, short.rows) == (["strategy", "EM"], [["a", "1"], ["a", "2"]])
    assert short.caption == "Caption. Equal in all rows: k 5; gold x."
    assert TableView("t", "c", ["a", "b"], [["1", "2"]]).drop_constant_columns().columns == ["a", "b"]
    same = TableView("t", "c", ["a", "b"], [["1", "2"], ["1", "2"]])
    assert same.drop_constant_columns() is same
