"""Parser of DPR's training files (biencoder-*.json): questions and passages with their answers."""

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
class DprBiencoder:
    """A parser of the questions that have a positive passage.

    The first positive passage is the gold passage; its title is stored in `meta`. Questions whose
    gold passage DPR could not find in its Wikipedia dump have no positive passage. They are
    skipped, as in DPR's training.

    Args:
        path: JSON file, gzipped or not.
        gold: Whether to store the ids of the gold passages. They are valid only with DPR's corpus.
    """

    revision: ClassVar[int] = 1

    path: Annotated[str, InputFile]
    gold: bool = True

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order. A question's id is its position, starting at 1."""
        path = Path(self.path)
        rows = load_json(path)
        if not isinstance(rows, list):
            raise InputError(
                f"{path}: expected a list of questions, as in DPR's biencoder-*.json; received a "
                f"{type(rows).__name__}. Check dataset.parser.path."
            )
        for position, row in enumerate(rows, start=1):
            place = Place(path, position, "record")
            positives = row.get("positive_ctxs") if isinstance(row, dict) else None
            if not isinstance(positives, list):
                raise InputError.at(
                    place,
                    received=str(row),
                    expected="an object with a list `positive_ctxs`",
                )
            if not positives:
                continue
            gold = positives[0]
            gold_id = gold.get("passage_id", gold.get("psg_id")) if isinstance(gold, dict) else None
            if gold_id is None:
                raise InputError.at(
                    place,
                    received=str(gold),
                    expected="a positive passage with an id",
                )
            yield Question(
                str(position),
                require_text(row.get("question"), place, "question"),
                parse_answers(row.get("answers") or [], place),
                (str(gold_id),) if self.gold else (),
                meta=json.dumps({"title": gold.get("title", "")}),
            )
