"""Parser of PopQA: a tab-separated file with a header row."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.errors import InputError
from winnow.formats.fields import parse_answers, parse_list, require_text
from winnow.formats.text import read_tsv
from winnow.identity.markers import InputFile
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class PopQa:
    """A parser that reads each row as a question.

    `meta` stores the relation (`prop`) and the popularity of the subject (`s_pop`), if the file has these columns.
    """

    revision: ClassVar[int] = 2

    path: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        path = Path(self.path)
        columns: list[str] = []
        for line_number, row in read_tsv(path, quoted=True):
            if not columns:
                columns = row
                if not {"id", "question", "possible_answers"} <= set(columns):
                    expected = "a header with id, question, possible_answers"
                    raise InputError.from_line(path, line_number, received="\t".join(row), expected=expected)
                continue
            fields = dict(zip(columns, row, strict=True))
            answers = parse_answers(parse_list(fields["possible_answers"], path, line_number, single=False), path, line_number)
            question_id = require_text(fields["id"], path, line_number, "id")
            meta = json.dumps({name: fields[name] for name in ("prop", "s_pop") if name in fields})
            yield Question(question_id, require_text(fields["question"], path, line_number, "question"), answers, meta=meta)
