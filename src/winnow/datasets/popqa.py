"""Parser of PopQA: a tab-separated file with a header row."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.errors import InputError, Place
from winnow.formats.fields import parse_answers, parse_list, require_text
from winnow.formats.text import read_tsv
from winnow.identity.markers import InputFile
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class PopQa:
    """A parser that reads each row as a question.

    `meta` stores the relation (`prop`) and the popularity of the subject (`s_pop`), if the file has
    these columns.

    Args:
        path: PopQA's file.
        views_below: Number of monthly views of the subject's page from which questions are left
            out, or None for all. 100 selects the long tail that Self-RAG and CRAG take (Self-RAG,
            section 4.1: fewer than 100 views, 1,399 questions).
    """

    revision: ClassVar[int] = 2

    path: Annotated[str, InputFile]
    views_below: Annotated[int, Ge(1)] | None = None

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order.

        Raises:
            InputError: If a row is malformed, or lacks the views by which questions are selected.
        """
        path = Path(self.path)
        columns: list[str] = []
        for place, row in read_tsv(path, quoted=True):
            if not columns:
                columns = row
                if not {"id", "question", "possible_answers"} <= set(columns):
                    expectation = "a header with id, question, possible_answers"
                    raise InputError.at(place, received="\t".join(row), expected=expectation)
                continue
            fields = dict(zip(columns, row, strict=True))
            if self.views_below is not None and self._read_views(fields, place) >= self.views_below:
                continue
            answers = parse_answers(
                parse_list(fields["possible_answers"], place, single=False),
                place,
            )
            question_id = require_text(fields["id"], place, "id")
            meta = json.dumps({name: fields[name] for name in ("prop", "s_pop") if name in fields})
            yield Question(
                question_id,
                require_text(fields["question"], place, "question"),
                answers,
                meta=meta,
            )

    def _read_views(self, fields: Mapping[str, str], place: Place) -> float:
        """Return the monthly views of the subject's page."""
        try:
            return float(fields["s_pop"])
        except (KeyError, ValueError):
            expectation = (
                "the monthly views of the subject as s_pop, by which dataset.parser.views_below "
                "selects"
            )
            raise InputError.at(place, received=str(dict(fields)), expected=expectation) from None
