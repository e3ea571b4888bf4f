"""Parser of SQuAD: a JSON file of articles with paragraphs, each of which has questions."""

import json
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
class Squad:
    """A parser that skips version 2's unanswerable questions. `meta` stores the article's title."""

    revision: ClassVar[int] = 1

    path: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        path = Path(self.path)
        content = load_json(path)
        if not isinstance(content, dict) or not isinstance(content.get("data"), list):
            raise InputError(
                f"{path}: expected a JSON object with a list `data`, as in SQuAD. Check "
                "dataset.parser.path."
            )
        for article_number, article in enumerate(content["data"], start=1):
            place = Place(path, article_number, "record")
            try:
                rows = [row for paragraph in article["paragraphs"] for row in paragraph["qas"]]
                fields = [
                    (
                        str(row["id"]),
                        row["question"],
                        [answer["text"] for answer in row["answers"]],
                    )
                    for row in rows
                    if not row.get("is_impossible")
                ]
                meta = json.dumps({"title": article.get("title", "")})
            except (KeyError, TypeError, AttributeError) as error:
                expectation = (
                    "an article with paragraphs, qas, id, question and answers "
                    f"({type(error).__name__}: {error})"
                )
                raise InputError.at(place, received=str(article), expected=expectation) from error
            for question_id, question, answers in fields:
                text = require_text(question, place, "question")
                yield Question(
                    question_id,
                    text,
                    parse_answers(answers, place),
                    meta=meta,
                )
