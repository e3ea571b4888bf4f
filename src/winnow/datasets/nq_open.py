"""Parser of NQ-open (and DPR's SQuAD file): JSON lines with a question and a list of answers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.formats.fields import parse_answers, require_text
from winnow.formats.text import read_json_lines
from winnow.identity.markers import InputFile
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class NqOpen:
    """A parser that reads each line as a question, with the line number as its id."""

    revision: ClassVar[int] = 1

    path: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        path = Path(self.path)
        for place, row in read_json_lines(path, {"question": str, "answer": list}):
            text = require_text(row["question"], place, "question")
            yield Question(str(place.number), text, parse_answers(row["answer"], place))
