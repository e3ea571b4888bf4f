"""Artifacts: contracts, atomic names, manifests."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from winnow.artifacts import contracts, parquet
from winnow.artifacts.files import atomic_write, check_free_space
from winnow.artifacts.provenance import (
    compute_key,
    get_git_revision,
    get_installed_versions,
    is_done,
    write_manifest,
)
from winnow.errors import ArtifactError, DiskFullError, MissingArtifactError

ROW = {"passage_id": "1", "title": "t", "text": "x"}


def test_rows_come_back(tmp_path: Path) -> None:
    """Written in groups, read whole or streamed."""
    path = tmp_path / "c.parquet"
    rows = [{**ROW, "passage_id": str(n)} for n in range(25)]
    assert parquet.write(path, contracts.CORPUS, rows, group=10) == 25
    assert parquet.read(path, contracts.CORPUS).to_pylist() == rows
    assert list(parquet.stream(path, contracts.CORPUS, batch=7)) == rows


def test_a_duplicate_id_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    """Row and first row; no file stays under the name."""
    path = tmp_path / "c.parquet"
    with pytest.raises(
        ArtifactError, match=r"passage_id='1' is a duplicate: rows 0 and 2, counted from 0"
    ):
        parquet.write(path, contracts.CORPUS, [ROW, {**ROW, "passage_id": "2"}, ROW])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "bad", ["", " ", "\u00a0", "a\nb", "\t", "\u2028", "x\u0085", "\u2029y", "\0"]
)
def test_ids_that_cannot_be_seen_are_named(tmp_path: Path, bad: str) -> None:
    """Blank ones and those with control characters, whatever file they are from;
    nothing is left.
    """
    with pytest.raises(
        ArtifactError,
        match=r"row 2, column passage_id: received .* an id must have a visible character",
    ):
        parquet.write(
            tmp_path / "c.parquet",
            contracts.CORPUS,
            [ROW, {**ROW, "passage_id": "2"}, {**ROW, "passage_id": bad}],
            group=2,
        )
    assert list(tmp_path.iterdir()) == []
    spaces = {**ROW, "passage_id": " New York \u00e9"}
    assert parquet.write(tmp_path / "c.parquet", contracts.CORPUS, [spaces]) == 1


@pytest.mark.parametrize("bad", [None, float("nan")])
def test_a_null_or_nan_is_named(tmp_path: Path, bad: float | None) -> None:
    """File, row and column; nothing half-written."""
    row = {"question_id": "q", "passage_id": "p", "log_odds": 1.0, "p_true": 0.5}
    with pytest.raises(ArtifactError, match="row 1, column log_odds"):
        parquet.write(
            tmp_path / "r.parquet",
            contracts.RELEVANCE,
            [row, {**row, "passage_id": "o", "log_odds": bad}],
        )
    assert list(tmp_path.iterdir()) == []


def test_a_missing_score_stays_missing(tmp_path: Path) -> None:
    """A column that may be null keeps its nulls through a file; NaN is refused there as well."""
    path = tmp_path / "h.parquet"
    row = {"question_id": "q", "rank": 1, "passage_id": "p", "score": None}
    parquet.write(path, contracts.HITS, [row, {**row, "passage_id": "o", "score": 0.5}])
    assert parquet.read(path, contracts.HITS)["score"].to_pylist() == [None, 0.5]
    assert [row["score"] for row in parquet.stream(path, contracts.HITS)] == [None, 0.5]
    with pytest.raises(ArtifactError, match="row 0, column score: received nan"):
        parquet.write(path, contracts.HITS, [{**row, "score": float("nan")}])


def test_what_others_broke_is_noticed_on_reading(tmp_path: Path) -> None:
    """A missing column, a null and a NaN in a file that was not written here."""
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"question_id": ["q"]}), path)
    with pytest.raises(ArtifactError, match="lacks the columns"):
        parquet.read(path, contracts.RELEVANCE)
    body = {"question_id": ["q"], "passage_id": ["p"], "log_odds": [float("nan")], "p_true": [0.5]}
    pq.write_table(pa.table(body), path)
    with pytest.raises(ArtifactError, match="row 0, column log_odds is NaN"):
        parquet.read(path, contracts.RELEVANCE)
    pq.write_table(pa.table({**body, "log_odds": pa.array([None], pa.float32())}), path)
    with pytest.raises(ArtifactError, match="column log_odds is null"):
        parquet.read(path, contracts.RELEVANCE)
    with pytest.raises(MissingArtifactError, match="Run the stage"):
        parquet.read(tmp_path / "none.parquet", contracts.CORPUS)


def test_a_full_disk_is_noticed_before_and_during(tmp_path: Path) -> None:
    """Too little space refuses to begin; ENOSPC leaves nothing behind."""
    with pytest.raises(DiskFullError, match="MiB are required"):
        check_free_space(tmp_path, 2**60)
    with (
        pytest.raises(DiskFullError, match="became full"),
        atomic_write(tmp_path / "x") as partial,
    ):
        partial.write_text("half")
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_an_appender_orders_rows(tmp_path: Path) -> None:
    """Rows in any order come out in the order of the ids; an empty artifact is one too."""
    rows = parquet.ArtifactWriter(tmp_path / "c.parquet", contracts.CORPUS, group=2)
    for name in "cab":
        rows.add({**ROW, "passage_id": name})
    assert rows.finish(["a", "b", "c"]) == 3
    assert parquet.read(tmp_path / "c.parquet", contracts.CORPUS)["passage_id"].to_pylist() == [
        "a",
        "b",
        "c",
    ]
    assert parquet.ArtifactWriter(tmp_path / "e.parquet", contracts.CORPUS).finish([]) == 0
    short = parquet.ArtifactWriter(tmp_path / "s.parquet", contracts.CORPUS)
    short.add(ROW)
    with pytest.raises(ArtifactError, match="received 1 rows for 2 questions"):
        short.finish(["1", "2"])
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["c.parquet", "e.parquet"]


def test_a_manifest_says_done(tmp_path: Path) -> None:
    """Only for its own key."""
    assert not is_done(tmp_path, "k")
    write_manifest(tmp_path, key="k", settings={"a": 1}, rows=3)
    assert is_done(tmp_path, "k")
    assert not is_done(tmp_path, "other")


def test_keys_depend_on_content_not_order() -> None:
    """Equal settings have equal keys however they are written."""
    assert compute_key({"a": 1, "b": [2]}) == compute_key({"b": [2], "a": 1})
    assert compute_key({"a": 1}) != compute_key({"a": 2})
    assert get_installed_versions()["numpy"]
    assert get_git_revision()


def test_columns_and_rows_are_selected(tmp_path: Path) -> None:
    """Together and alone."""
    path = tmp_path / "c.parquet"
    rows = [{**ROW, "passage_id": f"{n}"} for n in range(9)]
    parquet.write(path, contracts.CORPUS, rows, group=4)
    ids = parquet.read(path, contracts.CORPUS, columns=["passage_id"])
    assert (ids.column_names, len(ids)) == (["passage_id"], 9)
    kept = parquet.read(
        path, contracts.CORPUS, columns=["text"], filters=pc.field("passage_id").isin(["2", "5"])
    )
    assert kept.to_pylist() == [{"text": "x"}] * 2
