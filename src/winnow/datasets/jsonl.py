"""Parser of question files of one's own: JSON lines whose columns have any names."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from winnow.formats.text import parse_answers, read_columns, require_text
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class JsonlQuestions:
    """A parser that reads each line as a question.

    Args:
        path: File of JSON lines, gzipped or not.
        question: Name of the column with the question.
        answers: Name of the column with the accepted answers: a list, or a single text or number.
        id: Name of the column with the id of the question, or "" to number the lines.

    """

    revision: ClassVar[int] = 1
    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str
    question: str = "question"
    answers: str = "answers"
    id: str = ""

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        path = Path(self.path)
        columns = {"question": self.question, "answers": self.answers} | ({"id": self.id} if self.id else {})
        for line_number, row in read_columns(path, columns, "dataset.parser"):
            values = row["answers"] if isinstance(row["answers"], list) else [row["answers"]]
            question_id = require_text(row.get("id", line_number), path, line_number, self.id or "id")
            text = require_text(row["question"], path, line_number, self.question)
            yield Question(question_id, text, parse_answers(values, path, line_number))
