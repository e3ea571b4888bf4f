"""Names of lines in plots."""

from winnow.sweeps.labels import CellLabels


def test_a_line_is_named_by_what_distinguishes_it() -> None:
    """The strategy, with setting and seed if there are any; k and placement are the axes of a plot,
    and are left out.
    """
    assert CellLabels("post_fusion", 5, "retrieved").line == "post_fusion"
    assert (
        CellLabels("post_fusion", 5, "gold_first", "retriever=dense").line
        == "post_fusion (retriever=dense)"
    )
    assert CellLabels("marginal", 1, "retrieved", seed="3").line == "marginal (seed 3)"
    assert (
        CellLabels("marginal", 1, "retrieved", "reader=t5", seed="3").line
        == "marginal (reader=t5, seed 3)"
    )


def test_settings_that_follow_from_a_label_are_left_out() -> None:
    """Each from its own."""
    varying = (
        ("retriever", "dense"),
        ("ranked by", "estimator t5"),
        ("weighted by", "none"),
        ("samples", "5"),
    )
    labels = CellLabels("marginal", 1, "retrieved", varying=varying)
    assert labels.select_other_settings([]) == dict(varying)
    assert labels.select_other_settings(["rank_by"]).keys() == {
        "retriever",
        "weighted by",
        "samples",
    }
    assert labels.select_other_settings(["weight_by"]).keys() == {
        "retriever",
        "ranked by",
        "samples",
    }
    assert labels.select_other_settings(["samples", "k"]).keys() == {
        "retriever",
        "ranked by",
        "weighted by",
    }
