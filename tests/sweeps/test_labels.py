"""Names of lines in plots."""

from winnow.sweeps.labels import CellLabels


def test_a_line_is_named_by_what_distinguishes_it() -> None:
    """The strategy, with setting and seed if there are any; k and placement are the axes of a plot, and are left out."""
    assert CellLabels("post_fusion", 5, "retrieved").line == "post_fusion"
    assert CellLabels("post_fusion", 5, "gold_first", "retriever=dense").line == "post_fusion (retriever=dense)"
    assert CellLabels("marginal", 1, "retrieved", seed="3").line == "marginal (seed 3)"
    assert CellLabels("marginal", 1, "retrieved", "reader=t5", seed="3").line == "marginal (reader=t5, seed 3)"
