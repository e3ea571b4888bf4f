"""Parser of the questions in a FiD JSON file. `winnow.retrievers.provided` reads its contexts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.formats.fid_json import read_fid
from winnow.identity.markers import InputFile
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class FidQuestions:
    """A parser of the questions in a FiD file, or in a folder with one file per split."""

    revision: ClassVar[int] = 7

    path: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        return (row.question for row in read_fid(Path(self.path)))
