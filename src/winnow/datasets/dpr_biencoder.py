"""DPR's training files (such as biencoder-nq-dev.json): questions with the passages that contain their answers."""

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
    """Yields the questions that have a positive passage, the first of which is the gold passage; `meta` contains its title.

    A question whose gold passage DPR could not find in its dump of Wikipedia has none and is left out, as in its
    training.
    """

    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str
    gold: bool = True
    """False leaves the ids of the gold passages out, for a corpus other than DPR's."""

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order; ids are their numbers in the file."""
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
            gold = positive[0].get("passage_id", positive[0].get("psg_id"))
            if gold is None:
                raise InputError.at(path, number, received=str(positive[0]), expected="a positive passage with an id")
            yield Question(
                str(number),
                require_text(row.get("question"), path, number, "question"),
                parse_answers(row.get("answers") or [], path, number),
                (str(gold),) if self.gold else (),
                meta=json.dumps({"title": positive[0].get("title", "")}),
            )
