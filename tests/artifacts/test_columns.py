"""Mappings over columns: the same as dictionaries of all rows, in memory or in a mapped file."""

from pathlib import Path

import pyarrow as pa
import pytest

from winnow.artifacts import columns, contracts, parquet
from winnow.artifacts.columns import GroupedRows, find_first_missing, read_passages_by_id
from winnow.artifacts.tables import build_passage_rows
from winnow.records import Passage

PASSAGES = [Passage(f"p{number}", f"title {number}", f"text ü {number}") for number in range(100)]


@pytest.mark.parametrize("limit", [1000, 0])
def test_passages_by_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """The selected ones only, whether they are in memory or in a file; an absent id is
    a KeyError.
    """
    monkeypatch.setattr(columns, "_MAX_IN_MEMORY", limit)
    path = tmp_path / "passages.parquet"
    parquet.write(path, contracts.CORPUS, build_passage_rows(PASSAGES), group=7)
    chosen = [passage for passage in PASSAGES if passage.passage_id != "p5"][::2]
    rows = read_passages_by_id(
        path, pa.array([*(passage.passage_id for passage in chosen), "absent"], pa.string())
    )
    assert dict(rows) == {passage.passage_id: passage for passage in chosen}
    assert len(rows) == len(chosen)
    assert "p5" not in rows
    with pytest.raises(KeyError):
        rows["absent"]
    assert rows.get("p99", None) == (PASSAGES[99] if PASSAGES[99] in chosen else None)


def test_passages_whose_hashes_are_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each id finds its own passage."""
    monkeypatch.setattr(columns, "_MAX_IN_MEMORY", 0)
    monkeypatch.setattr(columns, "hash", lambda _: 7, raising=False)
    path = tmp_path / "passages.parquet"
    parquet.write(path, contracts.CORPUS, build_passage_rows(PASSAGES))
    rows = read_passages_by_id(
        path, pa.array([passage.passage_id for passage in PASSAGES], pa.string())
    )
    assert [rows[passage.passage_id] for passage in PASSAGES] == PASSAGES
    assert "q" not in rows


def test_no_passages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty selection is an empty mapping."""
    path = tmp_path / "passages.parquet"
    parquet.write(path, contracts.CORPUS, build_passage_rows(PASSAGES))
    monkeypatch.setattr(columns, "_MAX_IN_MEMORY", -1)
    rows = read_passages_by_id(path, pa.array([], pa.string()))
    assert (dict(rows), len(rows), rows.get("p1")) == ({}, 0, None)


@pytest.mark.parametrize(
    "rows",
    [[("b", 1, "x"), ("b", 2, "y"), ("a", 1, "z")], [("a", 1, "z"), ("b", 2, "y"), ("b", 1, "x")]],
)
def test_rows_by_group(rows: list[tuple[str, int, str]]) -> None:
    """In the wanted order, by rank within a group, without other ids; each time it is asked for."""
    rows = [*rows, ("other", 1, "w")]
    table = pa.table(
        {
            name: list(values)
            for name, values in zip(("id", "rank", "value"), zip(*rows, strict=True), strict=True)
        }
    )
    groups = GroupedRows(table, "id", ["b", "absent", "a"], lambda found: list(found["value"]))
    assert list(groups) == ["b", "a"]
    for _ in range(2):
        assert dict(groups) == {"b": ["x", "y"], "a": ["z"]}
    assert groups.lengths == [2, 1]
    assert "absent" not in groups
    with pytest.raises(KeyError):
        groups["other"]


def test_the_first_missing_value() -> None:
    """None if all are known, and if there is none."""
    known = pa.chunked_array([["a"], ["b", "c"]])
    assert find_first_missing(pa.chunked_array([["c"], ["x", "a", "y"]]), known) == 1
    assert find_first_missing(pa.chunked_array([["c", "a"]]), known) is None
    assert find_first_missing(pa.chunked_array([pa.array([], pa.string())]), known) is None
