"""Damaged Parquet files: every reader names the file and what to do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from winnow.artifacts import contracts, parquet
from winnow.errors import ArtifactError, InputError
from winnow.formats.rage import read_table

READERS: dict[str, Callable[[Path], object]] = {
    "read": lambda path: parquet.read(path, contracts.CORPUS),
    "stream": lambda path: list(parquet.stream(path, contracts.CORPUS)),
    "read_table": parquet.read_table,
    "batches": lambda path: list(parquet.iter_batches(path, 10)),
    "count": parquet.count_rows,
    "rage": lambda path: list(read_table(path, ("title", "text"))),
}


@pytest.mark.parametrize("cut", [0, 10, -8, -200])
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, cut: int) -> None:
    """Cut at any place, or empty."""
    path = tmp_path / "data.parquet"
    parquet.write(
        path,
        contracts.CORPUS,
        [{"passage_id": str(n), "title": "t", "text": "x" * n} for n in range(50)],
    )
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(
        (ArtifactError, InputError), match=r"data\.parquet is (not a Parquet file|damaged)"
    ):
        READERS[name](path)


def test_pages_that_were_overwritten_are_damage(tmp_path: Path) -> None:
    """The end of the file is whole."""
    path = tmp_path / "data.parquet"
    parquet.write(
        path,
        contracts.CORPUS,
        [{"passage_id": str(n), "title": "t", "text": "x" * n} for n in range(50)],
    )
    body = bytearray(path.read_bytes())
    body[4:60] = b"\xff" * 56
    path.write_bytes(body)
    with pytest.raises(ArtifactError, match="is damaged"):
        parquet.read(path, contracts.CORPUS)
