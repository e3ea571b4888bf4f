"""Questions from the Hugging Face Hub, or from files that `datasets` can load, streamed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar

from winnow.errors import InputError
from winnow.formats.hub import load_hub_rows
from winnow.formats.text import parse_answers, require_text
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class HubQuestions:
    """Parses the rows of a Hugging Face data set into questions.

    Column names with dots, such as "answer.aliases", address nested fields.

    Args:
        path: Name on the Hub with its commit ("owner/name@<commit>"), a folder, or a file format with `data_files`.
        split: Split to load.
        id_column: Column with the question id, or None for row numbers.
        question_column: Column with the question.
        answers_column: Column with the answer or the list of answers.
        options: Further arguments of `datasets.load_dataset`.

    """

    revision: ClassVar[int] = 1
    dataset_names: ClassVar[tuple[str, ...]] = ("path",)
    input_files: ClassVar[tuple[str, ...]] = ("options.data_files", "options.data_dir")

    path: str
    split: str = "test"
    id_column: str | None = None
    question_column: str = "question"
    answers_column: str = "answer"
    options: dict[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in the data set's order."""
        rows = load_hub_rows(self.path, self.split, self.options)
        for number, row in enumerate(rows, start=1):
            text = self._field(row, self.question_column, number)
            value = self._field(row, self.answers_column, number)
            answers = parse_answers(value if isinstance(value, list) else [value], Path(self.path), number)
            question_id = str(self._field(row, self.id_column, number)) if self.id_column else str(number)
            yield Question(question_id, require_text(text, Path(self.path), number, "question"), answers)

    def _field(self, row: dict[str, Any], column: str, number: int) -> Any:
        """Return the value of a column, which may be nested."""
        try:
            return reduce(lambda value, name: value[name], column.split("."), row)
        except (KeyError, TypeError) as error:
            raise InputError(f"{self.path}, row {number}: no column {column!r}; it has {sorted(row)}.") from error
