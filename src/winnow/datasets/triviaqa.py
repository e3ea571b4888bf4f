"""TriviaQA's unfiltered JSON: an object whose `Data` is a list of questions with an answer and its aliases."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from winnow.errors import InputError
from winnow.formats.text import load_json, parse_answers, require_text
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class TriviaQa:
    """Parses the questions, with Answer.Value and all aliases as answers. The file is read at once."""

    revision: ClassVar[int] = 2
    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        path = Path(self.path)
        content = load_json(path)
        if not isinstance(content, dict) or not isinstance(content.get("Data"), list):
            raise InputError(f"{path}: expected an object with a list `Data`, as in TriviaQA's unfiltered files.")
        for number, row in enumerate(content["Data"], start=1):
            if not isinstance(row, dict) or not {"QuestionId", "Question", "Answer"} <= row.keys():
                raise InputError.at(path, number, received=str(row), expected="QuestionId, Question and Answer")
            answer = row["Answer"]
            if not isinstance(answer, dict) or not isinstance(answer.get("Aliases", []), list):
                raise InputError.at(path, number, received=str(answer), expected="an Answer with Value and a list of Aliases")
            answers = [answer.get("Value", ""), *answer.get("Aliases", [])]
            text = require_text(row["Question"], path, number, "question")
            yield Question(str(row["QuestionId"]), text, parse_answers(answers, path, number), target=str(answers[0]).strip())
