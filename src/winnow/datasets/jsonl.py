"""Parser of question files of one's own: JSON lines whose columns have any names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from winnow.formats.columns import Column, read_columns
from winnow.formats.fields import format_meta
from winnow.identity.markers import InputFile
from winnow.records import Question


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
    question: Annotated[str, Column()] = "question"
    answers: Annotated[str, Column()] = "answers"
    id: Annotated[str | None, Column(optional=True, usual=("id", "_id", "qid", "question_id"))] = (
        None
    )
    gold: Annotated[str, Column(optional=True)] = ""
    meta: Annotated[Sequence[str], Column()] = ()
    split: Annotated[str, Column(optional=True)] = ""

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        for row in read_columns(self, "dataset.parser"):
            yield Question(
                question_id=row.read_text("id", default=str(row.place.number)),
                text=row.read_text("question"),
                answers=row.read_answers("answers"),
                gold_passage_ids=row.read_ids("gold"),
                split=row.read_text("split"),
                meta=format_meta(row.values["meta"]),
            )
