"""Differences that a paper reports, with our pairs of cells that differ in nothing else."""

from dataclasses import replace

import pytest

from winnow.reports.cells import CellResult
from winnow.reports.differences import build_differences_table, compute_differences
from winnow.reports.reported import PaperPart, ReportedDifference
from winnow.testing import make_cell_result

ESTIMATOR, RETRIEVER = ({"rank_by": by, "weight_by": by} for by in ("estimator", "retriever"))


def part(of: dict[str, object], less: dict[str, object]) -> PaperPart:
    """A table that reports one difference of 10 points."""
    difference = ReportedDifference("em", of, less, 10.0)
    return PaperPart("Table", "Paper, table", {}, ["em"], [], [difference], {}, (), gold_only=False)


def cell(
    ems: list[float],
    strategy: str = "marginal",
    varying: tuple[tuple[str, str], ...] = (),
    **labels: object,
) -> CellResult:
    """A cell with these labels and other settings."""
    one = make_cell_result(strategy, 5, "g", ems)
    return replace(one, labels=replace(one.labels, varying=varying, **labels))  # type: ignore[arg-type]


def test_cells_of_other_settings_are_no_pair() -> None:
    """Two retrievers give two pairs, each of one retriever, and the rows name it."""
    cells = [
        cell(
            ems,
            varying=(("retriever", retriever), ("ranked by", by), ("weighted by", by)),
            rank_by=by,
            weight_by=by,
        )
        for retriever, ems_by in (
            ("bm25", {"estimator": [1.0, 1.0], "retriever": [0.0, 1.0]}),
            ("dense", {"estimator": [1.0, 0.0], "retriever": [0.0, 0.0]}),
        )
        for by, ems in ems_by.items()
    ]
    differences = compute_differences(part(ESTIMATOR, RETRIEVER), cells, 0)
    assert [one.shared_labels for one in differences] == [
        "marginal, retriever=bm25",
        "marginal, retriever=dense",
    ]
    assert [one.comparison.difference for one in differences if one.comparison] == [0.5, 0.5]
    assert [row[1] for row in build_differences_table(differences).rows] == [
        f"rank_by estimator, weight_by estimator (marginal, retriever={name})"
        for name in ("bm25", "dense")
    ]


def test_labels_that_are_not_stated_are_equal() -> None:
    """A difference in ranking is not paired with one in weighting."""
    cells = [cell([1.0, 0.0], rank_by="estimator"), cell([0.0, 0.0], weight_by="estimator")]
    (one,) = compute_differences(part({"rank_by": "estimator"}, {"rank_by": "retriever"}), cells, 0)
    assert one.status == "not run"


def test_a_label_that_both_cells_state_keeps_its_settings_equal() -> None:
    """Cells of two estimators are not crossed, though both are ranked by one."""
    cells = [
        cell([1.0, 0.0], strategy, (("ranked by", f"estimator {name}"),), rank_by="estimator")
        for name in "ab"
        for strategy in ("marginal", "post_fusion")
    ]
    both = (
        {"strategy": "post_fusion", "rank_by": "estimator"},
        {"strategy": "marginal", "rank_by": "estimator"},
    )
    differences = compute_differences(part(*both), cells, 0)
    assert [one.shared_labels for one in differences] == [
        "ranked by=estimator a",
        "ranked by=estimator b",
    ]


@pytest.mark.parametrize("name", ["weighting.scale", "retriever"])
def test_a_setting_that_one_cell_lacks_separates_none(name: str) -> None:
    """It only distinguishes the other cells from each other."""
    cells = [
        cell([1.0, 0.0], "concatenation"),
        *(cell([0.0, 0.0], "post_fusion", ((name, value),)) for value in "12"),
    ]
    differences = compute_differences(
        part({"strategy": "concatenation"}, {"strategy": "post_fusion"}), cells, 0
    )
    assert [one.comparison.difference for one in differences if one.comparison] == [0.5, 0.5]


def test_numbers_of_samples_are_a_label() -> None:
    """A difference between samples pairs cells of one temperature."""
    cells = [
        cell(
            [float(samples > 1), 0.0],
            "marginal",
            (("decoding", f"T={t}"), ("samples", str(samples))),
            samples=samples,
        )
        for t in (0.5, 1.0)
        for samples in (1, 5)
    ]
    differences = compute_differences(part({"samples": 5}, {"samples": 1}), cells, 0)
    assert [one.shared_labels for one in differences] == [
        "marginal, decoding=T=0.5",
        "marginal, decoding=T=1.0",
    ]


def test_the_column_says_for_which_rows_p_is_corrected() -> None:
    """The page corrects the same pair for all pairs of its cells."""
    table = build_differences_table([])
    assert "p (Holm, this table)" in table.columns
    assert "is corrected for the rows of this table alone" in table.caption
