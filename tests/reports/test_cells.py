"""Cells: labels, rows and what a subset keeps."""

from winnow.metrics.intervals import UNDEFINED
from winnow.testing import make_cell_result


def test_a_subset_keeps_labels_and_metrics() -> None:
    """Samples are selected together with their rows, judged ones and groups included."""
    cell = make_cell_result("s", 5, "g", [1.0, 0.0, 1.0])
    part = cell.filter_samples(lambda sample: sample.prediction.provenance == "distant")
    assert (part.labels, len(part.samples)) == (cell.labels, 1)
    assert part.get_values("em") == {"q1": 0.0}
    assert cell.format_metric("em", 0).startswith("66.7")
    assert cell.format_metric("no such metric", 0) == UNDEFINED
