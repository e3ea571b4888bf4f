"""Parser of question files of one's own: JSON lines whose columns have any names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.formats.text import format_meta, parse_answers, parse_ids, read_columns, require_text
from winnow.identity.markers import InputFile
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class JsonlQuestions:
    """A parser that reads each line as a question.

    Args:
        path: File of JSON lines, gzipped or not.
        question: Name of the column with the question.
        answers: Name of the column with the accepted answers: a list, or a single text or number.
        id: Name of the column with the id of the question, or "" to number the lines.
        gold: Name of the column with the ids of the gold passages, a list or a single one, or "" without annotation. A
            question may have none.
        meta: Names of further columns, by which results can be grouped.
        split: Name of the column with the split of the question, which `Split(given=True)` keeps, or "".

    """

    revision: ClassVar[int] = 1

    path: Annotated[str, InputFile]
    question: str = "question"
    answers: str = "answers"
    id: str = ""
    gold: str = ""
    meta: Sequence[str] = ()
    split: str = ""

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        path = Path(self.path)
        optional = {name: column for name in ("id", "gold", "split") if (column := getattr(self, name))}
        columns = {"question": self.question, "answers": self.answers, **optional}
        columns |= {f"meta[{index}]": column for index, column in enumerate(self.meta)}
        for line_number, row in read_columns(path, columns, "dataset.parser"):
            values = row["answers"] if isinstance(row["answers"], list) else [row["answers"]]
            question_id = require_text(row.get("id", line_number), path, line_number, self.id or "id")
            text = require_text(row["question"], path, line_number, self.question)
            yield Question(
                question_id,
                text,
                parse_answers(values, path, line_number),
                parse_ids(row.get("gold"), path, line_number, self.gold),
                require_text(row["split"], path, line_number, self.split) if self.split else "",
                meta=format_meta({column: row[f"meta[{index}]"] for index, column in enumerate(self.meta)}),
            )
