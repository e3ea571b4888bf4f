"""Passages of a FiD JSON file, for experiments with existing retrieval results."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from winnow.formats.fid_json import read_fid
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class FidCorpus:
    """Parses the distinct passages of a FiD file, or of a folder with one file per split."""

    revision: ClassVar[int] = 1
    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in order of first appearance."""
        seen: set[str] = set()
        for row in read_fid(Path(self.path)):
            for passage, _ in row.contexts:
                if passage.passage_id not in seen:
                    seen.add(passage.passage_id)
                    yield passage
