"""Parser of Red-Trivia: YAML files, one per topic, that map questions to lists of answers."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import yaml

from winnow.errors import InputError, Place
from winnow.formats.fields import parse_answers, require_text
from winnow.formats.text import read_text
from winnow.identity.markers import InputFile
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class RedTrivia:
    """A parser of the questions in several lists, each of which is a YAML file.

    `meta` stores the name of the question's list. Repeated questions are skipped. All values are
    read as strings, because YAML would turn the answer 007 into 7 and No into False.

    Args:
        path: Folder of the YAML files.
        lists: Names of the lists, which are the file names without ".yaml".
    """

    revision: ClassVar[int] = 1

    path: Annotated[str, InputFile]
    lists: Sequence[str]

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions list by list."""
        question_keys: set[str] = set()
        for name in self.lists:
            path = Path(self.path) / f"{name}.yaml"
            text = read_text(path)
            try:
                entries = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 (BaseLoader builds strings only)
            except (yaml.YAMLError, RecursionError) as error:
                raise InputError(
                    f"{path} is not valid YAML ({error}). Download it again."
                ) from error
            if not isinstance(entries, dict):
                raise InputError(
                    f"{path}: expected a mapping of questions to lists of answers; received "
                    f"{str(entries)[:80]!r}. Check dataset.parser.path and dataset.parser.lists."
                )
            for entry_number, (question, answers) in enumerate(entries.items(), start=1):
                if question == "AUTHOR" or question in question_keys:
                    continue
                if not isinstance(answers, list):
                    raise InputError(
                        f"{path}, entry {entry_number} ({question!r}): expected a list of answers; "
                        f"received {answers!r}. Correct that entry or remove it."
                    )
                question_keys.add(question)
                place = Place(path, entry_number, "record")
                meta = json.dumps({"list": name})
                question_text = require_text(question, place, "question")
                parsed_answers = parse_answers(answers, place)
                yield Question(f"{name}-{entry_number}", question_text, parsed_answers, meta=meta)
