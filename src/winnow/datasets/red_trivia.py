"""Red-Trivia's YAML files, one per topic: each maps questions to lists of answers."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import yaml

from winnow.errors import InputError
from winnow.formats.text import open_text, parse_answers, require_text
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class RedTrivia:
    """Parses the questions of several lists. `meta` stores the list of each question; repeated questions are skipped.

    All values are read as strings, because YAML would turn the answer 007 into 7 and No into False.

    Args:
        path: Folder of the YAML files.
        lists: Names of the lists: the files' names without .yaml.

    """

    revision: ClassVar[int] = 1
    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str
    lists: Sequence[str]

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions list by list."""
        seen: set[str] = set()
        for name in self.lists:
            path = Path(self.path) / f"{name}.yaml"
            with open_text(path) as stream:
                try:
                    entries = yaml.load(stream, Loader=yaml.BaseLoader)  # noqa: S506 (BaseLoader builds strings only)
                except yaml.YAMLError as error:
                    raise InputError(f"{path}: not valid YAML ({error}). Fetch the file again.") from error
            for number, (text, answers) in enumerate(entries.items(), start=1):
                if text == "AUTHOR" or text in seen:
                    continue
                if not isinstance(answers, list):
                    raise InputError(f"{path}, entry {number} ({text!r}): expected a list of answers; received {answers!r}.")
                seen.add(text)
                meta = json.dumps({"list": name})
                question = require_text(text, path, number, "question")
                yield Question(f"{name}-{number}", question, parse_answers(answers, path, number), meta=meta)
