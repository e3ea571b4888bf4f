"""Parser of DPR's TSV files: questions and Python lists of answers, sometimes quoted as in CSV."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.formats.fields import parse_answers, parse_list, require_text
from winnow.formats.text import read_tsv
from winnow.identity.markers import InputFile
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class DprQuestions:
    """A parser that reads each line as a question, with the line number as its id."""

    revision: ClassVar[int] = 2

    path: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        path = Path(self.path)
        for place, (text, answers) in read_tsv(path, 2, quoted=True):
            parsed_answers = parse_answers(parse_list(answers, place, single=False), place)
            yield Question(str(place.number), require_text(text, place, "question"), parsed_answers)
