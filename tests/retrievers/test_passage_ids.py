"""The ids of an index's passages by their row."""

from pathlib import Path

from winnow.retrievers.passage_ids import PassageIds, write_passage_ids


def test_rows_count_over_all_batches(tmp_path: Path) -> None:
    """Also over empty batches; ids are any texts."""
    batches = [["a", "b"], [], ["é日"], ["", "a\nb", "f"]]
    assert write_passage_ids(tmp_path / "ids.arrow", iter(batches)) == 6
    ids = PassageIds(tmp_path / "ids.arrow")
    assert len(ids) == 6
    assert [ids.get(row) for row in range(6)] == ["a", "b", "é日", "", "a\nb", "f"]


def test_an_index_may_be_empty(tmp_path: Path) -> None:
    """Then there is no row."""
    assert write_passage_ids(tmp_path / "ids.arrow", []) == 0
    assert len(PassageIds(tmp_path / "ids.arrow")) == 0
