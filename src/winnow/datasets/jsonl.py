"""Parser of question files of one's own: JSON lines whose columns have any names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.formats.fields import format_meta, parse_answers, parse_ids, parse_list, require_text
from winnow.formats.text import find_id_column, read_columns
from winnow.identity.markers import InputFile
from winnow.records import Question

_ID_COLUMNS = ("id", "_id", "qid", "question_id")


@dataclass(frozen=True, slots=True)
class JsonlQuestions:
    """A parser that reads each line as a question.

    Args:
        path: File of JSON lines, gzipped or not.
        question: Name of the column with the question.
        answers: Name of the column with the accepted answers: a list, also one that is written as a
            text, or a single text or number.
        id: Name of the column with the id of the question, or "" to number the lines. By default,
            it is id, _id, qid or question_id if the first line has such a column.
        gold: Name of the column with the ids of the gold passages, a list or a single one, or ""
            without annotation. A question may have none.
        meta: Names of further columns, by which results can be grouped.
        split: Name of the column with the split of the question, which `Split(given=True)` keeps,
            or "".

    """

    revision: ClassVar[int] = 3

    path: Annotated[str, InputFile]
    question: str = "question"
    answers: str = "answers"
    id: str | None = None
    gold: str = ""
    meta: Sequence[str] = ()
    split: str = ""

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        path = Path(self.path)
        id_column = (
            find_id_column(path, _ID_COLUMNS, "dataset.parser.id") if self.id is None else self.id
        )
        optional = {
            name: column
            for name, column in (("id", id_column), ("gold", self.gold), ("split", self.split))
            if column
        }
        columns = {"question": self.question, "answers": self.answers, **optional}
        columns |= {f"meta[{index}]": column for index, column in enumerate(self.meta)}
        for place, row in read_columns(path, columns, "dataset.parser"):
            values = parse_list(row["answers"], place)
            question_id = require_text(row.get("id", place.number), place, id_column or "id")
            text = require_text(row["question"], place, self.question)
            yield Question(
                question_id,
                text,
                parse_answers(values, place),
                parse_ids(row.get("gold"), place, self.gold),
                require_text(row["split"], place, self.split) if self.split else "",
                meta=format_meta(
                    {column: row[f"meta[{index}]"] for index, column in enumerate(self.meta)}
                ),
            )
