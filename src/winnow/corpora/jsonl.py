"""Parser of passage files of one's own: JSON lines whose columns have any names."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.formats.text import read_columns, read_title, require_text
from winnow.identity.markers import InputFile
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class JsonlCorpus:
    """A parser that reads each line as a passage.

    Args:
        path: File of JSON lines, gzipped or not.
        text: Name of the column with the text.
        title: Name of the column with the title, or "" if passages have no titles.
        id: Name of the column with the id of the passage, or "" to number the lines.

    """

    revision: ClassVar[int] = 1

    path: Annotated[str, InputFile]
    text: str = "text"
    title: str = ""
    id: str = ""

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in file order."""
        path = Path(self.path)
        optional_columns = {name: column for name, column in (("title", self.title), ("id", self.id)) if column}
        for line_number, row in read_columns(path, {"text": self.text} | optional_columns, "corpus.parser"):
            passage_id = require_text(row.get("id", line_number), path, line_number, self.id or "id")
            title = read_title(row.get("title"), path, line_number, column=self.title)
            yield Passage(passage_id, title, require_text(row["text"], path, line_number, self.text))
