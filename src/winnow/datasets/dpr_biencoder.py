"""DPR's training files, such as biencoder-nq-dev.json: questions with passages that contain their answers."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from winnow.errors import InputError
from winnow.formats.text import load_json, parse_answers, require_text
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class DprBiencoder:
    """Parses the questions that have a positive passage.

    The first positive passage is the gold passage, whose title is stored in `meta`. Questions whose gold passage DPR could
    not find in its Wikipedia dump have no positive passage. They are skipped, as in DPR's training.
    """

    revision: ClassVar[int] = 1
    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str
    gold: bool = True
    """Whether to store the ids of the gold passages. They are valid only with DPR's corpus."""

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order; their ids are their positions in the file, from 1."""
        path = Path(self.path)
        rows = load_json(path)
        if not isinstance(rows, list):
            raise InputError(f"{path}: expected a list of questions, as in DPR's biencoder-*.json.")
        for number, row in enumerate(rows, start=1):
            positive = row.get("positive_ctxs") if isinstance(row, dict) else None
            if not isinstance(positive, list):
                raise InputError.at(path, number, received=str(row), expected="an object with a list `positive_ctxs`")
            if not positive:
                continue
            gold = positive[0].get("passage_id", positive[0].get("psg_id")) if isinstance(positive[0], dict) else None
            if gold is None:
                raise InputError.at(path, number, received=str(positive[0]), expected="a positive passage with an id")
            yield Question(
                str(number),
                require_text(row.get("question"), path, number, "question"),
                parse_answers(row.get("answers") or [], path, number),
                (str(gold),) if self.gold else (),
                meta=json.dumps({"title": positive[0].get("title", "")}),
            )
