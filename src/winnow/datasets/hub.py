"""Parser of questions that `datasets` streams from the Hugging Face Hub or from local files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Annotated, Any, ClassVar

from winnow.errors import InputError, Place
from winnow.formats.fields import format_meta, parse_answers, parse_ids, parse_list, require_text
from winnow.formats.hub import describe_source, load_hub_rows
from winnow.identity.markers import DatasetName, InputFile
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class HubQuestions:
    """A parser that reads each row of a Hugging Face data set as a question.

    Column names with dots, such as "answer.aliases", refer to nested fields.

    Args:
        path: Name on the Hub with its commit ("owner/name@<commit>"), a folder, or a file format
            with `data_files`.
        split: Split to load.
        id_column: Column with the question id, or None to use row numbers as ids.
        question_column: Column with the question.
        answers_column: Column with the answer or the list of answers, which may be written as a
            text.
        options: Further arguments of `datasets.load_dataset`.
        gold_column: Column with the ids of the gold passages, a list or a single one, or None
            without annotation.
        meta_columns: Further columns, by which results can be grouped.
    """

    revision: ClassVar[int] = 3

    path: Annotated[str, DatasetName]
    split: str = "test"
    id_column: str | None = None
    question_column: str = "question"
    answers_column: str = "answer"
    options: Annotated[dict[str, Any], InputFile("data_files", "data_dir")] = field(
        default_factory=dict
    )
    gold_column: str | None = None
    meta_columns: Sequence[str] = ()

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in the data set's order."""
        source = describe_source(self.path, self.options)
        rows = load_hub_rows(self.path, self.split, self.options)
        for row_number, row in enumerate(rows, start=1):
            place = Place(source, row_number, "row")
            text = self._get_field(row, self.question_column, place)
            value = self._get_field(row, self.answers_column, place)
            answers = parse_answers(parse_list(value, place), place)
            question_id = str(row_number)
            if self.id_column:
                value = self._get_field(row, self.id_column, place)
                question_id = require_text(value, place, self.id_column)
            gold = self._get_field(row, self.gold_column, place) if self.gold_column else None
            yield Question(
                question_id,
                require_text(text, place, "question"),
                answers,
                parse_ids(gold, place, self.gold_column or ""),
                meta=format_meta(
                    {column: self._get_field(row, column, place) for column in self.meta_columns}
                ),
            )

    def _get_field(self, row: dict[str, Any], column: str, place: Place) -> Any:
        """Return the value of a column, even a nested one; raise InputError if the row lacks it."""
        try:
            return reduce(lambda value, name: value[name], column.split("."), row)
        except (KeyError, TypeError) as error:
            raise InputError(
                f"{place}: there is no column {column!r}; the row has "
                f"{sorted(row)}. Correct the column names in dataset.parser."
            ) from error
