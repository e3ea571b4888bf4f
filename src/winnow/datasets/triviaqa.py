"""Parser of TriviaQA's unfiltered JSON, whose `Data` lists questions with answers and aliases."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.errors import InputError, Place
from winnow.formats.fields import parse_answers, require_text
from winnow.formats.text import load_json
from winnow.identity.markers import InputFile
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class TriviaQa:
    """A parser whose accepted answers are Answer.Value (also the training target) and all aliases.

    The whole file is read into memory.
    """

    revision: ClassVar[int] = 2

    path: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        path = Path(self.path)
        content = load_json(path)
        if not isinstance(content, dict) or not isinstance(content.get("Data"), list):
            raise InputError(
                f"{path}: expected a JSON object with a list `Data`, as in TriviaQA's unfiltered "
                "files. Check dataset.parser.path."
            )
        for position, row in enumerate(content["Data"], start=1):
            place = Place(path, position, "record")
            if not isinstance(row, dict) or not {"QuestionId", "Question", "Answer"} <= row.keys():
                raise InputError.at(
                    place,
                    received=str(row),
                    expected="QuestionId, Question and Answer",
                )
            answer = row["Answer"]
            if not isinstance(answer, dict) or not isinstance(answer.get("Aliases", []), list):
                expectation = "an Answer with Value and a list of Aliases"
                raise InputError.at(place, received=str(answer), expected=expectation)
            answers = [answer.get("Value", ""), *answer.get("Aliases", [])]
            text = require_text(row["Question"], place, "question")
            parsed_answers = parse_answers(answers, place)
            yield Question(
                str(row["QuestionId"]), text, parsed_answers, target=str(answers[0]).strip()
            )
