"""Cells: labels, rows and what a subset keeps."""

from winnow.metrics.intervals import UNDEFINED
from winnow.testing import cell_result


def test_a_subset_keeps_labels_and_metrics() -> None:
    """Samples are selected together with their rows, judged ones and groups included."""
    cell = cell_result("s", 5, "g", [1.0, 0.0, 1.0])
    part = cell.subset(lambda sample: sample.prediction.provenance == "distant")
    assert (part.labels, len(part.samples)) == (cell.labels, 1)
    assert part.values("em") == {"q1": 0.0}
    assert cell.text("em", 0).startswith("66.7")
    assert cell.text("no such metric", 0) == UNDEFINED
