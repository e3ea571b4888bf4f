"""Questions from the Hugging Face hub, or any files `datasets` reads."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar

from winnow.errors import InputError
from winnow.formats.text import parse_answers, require_text
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class HubQuestions:
    """Yields questions of a `datasets` data set; a dotted column ("answer.aliases") reaches into nested ones."""

    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str
    split: str = "test"
    id_column: str | None = None
    question_column: str = "question"
    answers_column: str = "answer"
    options: dict[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in the data set's order."""
        from datasets import load_dataset

        rows = load_dataset(self.path, split=self.split, streaming=True, **self.options)
        for number, row in enumerate(rows, start=1):
            text, value = self._pick(row, self.question_column, number), self._pick(row, self.answers_column, number)
            answers = parse_answers(value if isinstance(value, list) else [value], Path(self.path), number)
            question_id = str(self._pick(row, self.id_column, number)) if self.id_column else str(number)
            yield Question(question_id, require_text(text, Path(self.path), number, "question"), answers)

    def _pick(self, row: dict[str, Any], column: str, number: int) -> Any:
        try:
            return reduce(lambda value, name: value[name], column.split("."), row)
        except (KeyError, TypeError) as error:
            raise InputError(f"{self.path}, row {number}: no column {column!r}; it has {sorted(row)}.") from error
