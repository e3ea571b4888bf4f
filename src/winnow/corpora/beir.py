"""Parser of BEIR's corpus.jsonl(.gz): JSON lines with _id, title and text."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.formats.fields import read_title, require_text
from winnow.formats.text import read_json_lines
from winnow.identity.markers import InputFile
from winnow.records import Passage

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BeirCorpus:
    """A parser that reads each BEIR document as a passage. The title replaces a missing text.

    Documents with neither, of which FiQA has some, are empty passages, so that their ids exist.
    """

    revision: ClassVar[int] = 3

    path: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in file order."""
        path = Path(self.path)
        num_empty = 0
        for place, row in read_json_lines(path, {"_id": (str, int), "text": str}):
            passage_id = require_text(row["_id"], place, "_id")
            title = read_title(row.get("title"), place)
            text = row["text"].strip() or title
            num_empty += not text
            yield Passage(passage_id, title, text)
        if num_empty:
            _log.warning(
                "%d documents of %s have neither a text nor a title. They are empty passages.",
                num_empty,
                path,
            )
