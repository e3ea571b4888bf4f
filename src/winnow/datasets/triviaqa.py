"""TriviaQA's unfiltered JSON: an object whose `Data` lists questions with an Answer and its aliases."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from winnow.errors import InputError
from winnow.formats.text import load_json, parse_answers, require_text
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class TriviaQa:
    """Yields the questions with Answer.Value and every alias as answers (the file is one object, read whole)."""

    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        path = Path(self.path)
        body = load_json(path)
        if not isinstance(body, dict) or not isinstance(body.get("Data"), list):
            raise InputError(f"{path}: expected an object with a list `Data`, as in TriviaQA's unfiltered files.")
        for number, row in enumerate(body["Data"], start=1):
            if not {"QuestionId", "Question", "Answer"} <= row.keys():
                raise InputError.at(path, number, received=str(row), expected="QuestionId, Question and Answer")
            listed = [row["Answer"].get("Value", ""), *row["Answer"].get("Aliases", [])]
            text = require_text(row["Question"], path, number, "question")
            yield Question(str(row["QuestionId"]), text, parse_answers(listed, path, number))
