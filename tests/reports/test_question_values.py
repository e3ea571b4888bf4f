"""The table of every question's metrics."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import winnow
from winnow.errors import ArtifactError
from winnow.reports.question_values import write_question_values
from winnow.testing import make_cell_result


def test_a_row_per_cell_and_question(tmp_path: Path) -> None:
    """The mean of a column is the cell's value; what is undefined is null, and not 0."""
    cells = [
        make_cell_result("post_fusion", 5, "g", [1.0, 0.0, 1.0]),
        make_cell_result("concatenation", 10, "g", [0.0, 0.0, 1.0]),
    ]
    cells = [replace(cells[0], groups=["a", "b", "a"]), replace(cells[1], groups=["a", "b", "a"])]
    write_question_values(cells, tmp_path / "questions.parquet")
    frame = pq.read_table(tmp_path / "questions.parquet").to_pandas()
    assert list(frame["cell"].unique()) == ["post_fusion k=5 g", "concatenation k=10 g"]
    assert list(frame["question_id"]) == ["q0", "q1", "q2"] * 2
    assert list(frame["group"]) == ["a", "b", "a"] * 2
    assert list(frame["answer"][:2]) == ["x", "unknown"]
    for cell, (_, rows) in zip(cells, frame.groupby("cell", sort=False), strict=True):
        assert rows["em"].mean() == pytest.approx(cell.compute_interval("em", 0).mean)
        assert (rows["k"] == cell.labels.k).all()
    undefined = [np.isnan(cell.compute_values("nm_pool")).tolist() for cell in cells]
    assert frame["nm_pool"].isna().tolist() == [*undefined[0], *undefined[1]]
    assert any(undefined[1])
    assert pq.read_table(tmp_path / "questions.parquet")["nm_pool"].null_count == sum(
        map(sum, undefined)
    )


def test_selections_that_share_ids_keep_their_rows(tmp_path: Path) -> None:
    """A question of one data set is not that of another with the same id."""
    cells = [
        replace(cell, labels=replace(cell.labels, questions=name))
        for name, ems in (("first", [1.0, 0.0]), ("second", [0.0, 0.0]))
        for cell in [make_cell_result("post_fusion", 5, "g", ems)]
    ]
    write_question_values(cells, tmp_path / "questions.parquet")
    frame = pq.read_table(tmp_path / "questions.parquet").to_pandas()
    table = frame.pivot(index=["selection", "question_id"], columns="cell", values="em")
    assert [*table.index] == [(name, f"q{n}") for name in ("first", "second") for n in range(2)]
    assert table.count(axis=1).tolist() == [1, 1, 1, 1]


def test_a_folder_without_a_report_is_refused(tmp_path: Path) -> None:
    """With the file that lacks and the command that makes it."""
    with pytest.raises(ArtifactError, match=r"no metrics\.json\. Run `python -m flows\.report`"):
        winnow.load_report(tmp_path)
