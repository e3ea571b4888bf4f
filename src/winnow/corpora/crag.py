"""Parser of the passages in a file that CRAG's authors publish (see `winnow.formats.crag`)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from winnow.formats.crag import read_crag_rows
from winnow.identity.markers import InputFile
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class CragCorpus:
    """A parser of the contexts of all questions.

    Args:
        path: File of pairs or, if `questions` is not "", of knowledge.
        questions: File of the questions of a file of knowledge, one per line.
    """

    path: Annotated[str, InputFile]
    questions: Annotated[str, InputFile] = ""

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in file order."""
        for row in read_crag_rows(self.path, self.questions):
            yield from row.passages
