"""Parser of DPR's psgs_w100.tsv(.gz): tab-separated id, text and title, with an optional header."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.formats.fields import require_text
from winnow.formats.text import read_tsv
from winnow.identity.markers import InputFile
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class DprTsv:
    """A parser of DPR's passage files, such as the 21 million passages of Wikipedia."""

    revision: ClassVar[int] = 2

    path: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in file order."""
        path = Path(self.path)
        for place, (passage_id, text, title) in read_tsv(path, 3, quoted=True):
            is_header = place.number == 1 and passage_id == "id"
            if is_header:
                continue
            passage_id = require_text(passage_id, place, "id")
            yield Passage(passage_id, title, require_text(text, place, "passage"))
