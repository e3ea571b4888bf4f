"""SQuAD's JSON: articles with paragraphs with questions; unanswerable ones (version 2) are left out."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from winnow.errors import InputError
from winnow.formats.text import load_json, parse_answers, require_text
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class Squad:
    """Yields the answerable questions; `meta` contains the article's title."""

    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        path = Path(self.path)
        body = load_json(path)
        if not isinstance(body, dict) or not isinstance(body.get("data"), list):
            raise InputError(f"{path}: expected an object with a list `data`, as in SQuAD.")
        for number, article in enumerate(body["data"], start=1):
            meta = json.dumps({"title": article.get("title", "")})
            for row in (qa for paragraph in article["paragraphs"] for qa in paragraph["qas"]):
                if row.get("is_impossible"):
                    continue
                answers = parse_answers([answer["text"] for answer in row["answers"]], path, number)
                yield Question(str(row["id"]), require_text(row["question"], path, number, "question"), answers, meta=meta)
