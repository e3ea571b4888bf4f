"""Parser of the corpus of RAGE's files (see `winnow.formats.rage`)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from winnow.formats.fields import require_text
from winnow.formats.rage import find_table, read_table
from winnow.identity.markers import InputFile
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class RageCorpus:
    """A parser that reads each document as a passage. The title replaces a missing text.

    Args:
        path: Folder of RAGE's files.
    """

    path: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in file order."""
        file = find_table(Path(self.path), "corpus")
        for place, row in read_table(file, ("_id", "title", "text")):
            yield Passage(
                row["_id"],
                row["title"],
                require_text(row["text"] or row["title"], place, "text"),
            )
