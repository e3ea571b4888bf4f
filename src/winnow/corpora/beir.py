"""Parser of BEIR's corpus.jsonl(.gz): JSON lines with _id, title and text."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.formats.fields import read_title, require_text
from winnow.formats.text import read_json_lines
from winnow.identity.markers import InputFile
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class BeirCorpus:
    """A parser that reads each document of a BEIR corpus as a passage. If a document has no text, its title is the text."""

    revision: ClassVar[int] = 2

    path: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in file order."""
        path = Path(self.path)
        for line_number, row in read_json_lines(path, {"_id": str, "text": str}):
            text = require_text(row["text"] or row.get("title"), path, line_number, "text")
            yield Passage(row["_id"], read_title(row.get("title"), path, line_number), text)
