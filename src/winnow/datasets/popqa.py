"""PopQA's TSV: id, ..., question, possible_answers (a JSON list), with a header."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from winnow.errors import InputError
from winnow.formats.text import answers_of, lines, python_list, text_of
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class PopQa:
    """Yields one question a line; `meta` holds the relation (`prop`) and the subject's popularity where given."""

    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        import csv

        path = Path(self.path)
        names: list[str] = []
        for number, line in lines(path):
            row = next(csv.reader([line], delimiter="\t"))
            if not names:
                names = row
                if not {"id", "question", "possible_answers"} <= set(names):
                    raise InputError.at(path, number, received=line, expected="a header with id, question, possible_answers")
                continue
            if len(row) != len(names):
                raise InputError.at(path, number, received=line, expected=f"{len(names)} tab-separated fields")
            cells = dict(zip(names, row, strict=True))
            answers = answers_of(python_list(cells["possible_answers"], path, number), path, number)
            meta = json.dumps({name: cells[name] for name in ("prop", "s_pop") if name in cells})
            yield Question(cells["id"], text_of(cells["question"], path, number, "question"), answers, meta=meta)
