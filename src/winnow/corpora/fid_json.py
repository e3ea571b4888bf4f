"""Parser of the passages in a FiD JSON file, for experiments with existing retrieval results."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from winnow.formats.fid_json import read_fid
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class FidCorpus:
    """A parser of the distinct passages in a FiD file, or in a folder with one file per split."""

    revision: ClassVar[int] = 1
    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str

    def __iter__(self) -> Iterator[Passage]:
        """Yield each passage once, in order of first appearance."""
        seen_ids: set[str] = set()
        for row in read_fid(Path(self.path)):
            for passage, _ in row.contexts:
                if passage.passage_id not in seen_ids:
                    seen_ids.add(passage.passage_id)
                    yield passage
