"""Parser of Biography: people of whom a model writes a biography, which FactScore evaluates."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from winnow.errors import InputError, Place
from winnow.formats.fields import require_text
from winnow.formats.text import iter_lines, read_json_lines
from winnow.identity.markers import InputFile
from winnow.identity.values import Template, check_values
from winnow.records import Question

_WHO = re.compile(r"^who (?:is|was) (.+?)\?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Biography:
    """A parser that reads each line as a person.

    A line is a name, as in FactScore's lists; a question "Who is ...?", as in CRAG's; or, in a file
    named .jsonl, an object with "topic", as in FactScore's and Self-RAG's files. The name is the id
    of the question and the topic of its metadata. There are no short answers: `answers` is empty,
    so that exact match and F1 are undefined.

    Args:
        path: File of names or of JSON lines.
        template: Template of the question, with the field {topic}.
    """

    path: Annotated[str, InputFile]
    template: Annotated[str, Template("topic")] = "Tell me a biography of {topic}."

    def __post_init__(self) -> None:
        check_values("dataset.parser", self)

    def __iter__(self) -> Iterator[Question]:
        """Yield one question per person, in file order."""
        path = Path(self.path)
        places: dict[str, Place] = {}
        for place, topic in self._read_topics(path):
            if topic in places:
                expectation = f"a person who is not already in line {places[topic].number}"
                raise InputError.at(place, received=topic, expected=expectation)
            places[topic] = place
            yield Question(
                topic, self.template.format(topic=topic), (), meta=json.dumps({"topic": topic})
            )

    def _read_topics(self, path: Path) -> Iterator[tuple[Place, str]]:
        """Yield the place and the name of each person."""
        if path.name.removesuffix(".gz").endswith(".jsonl"):
            for place, row in read_json_lines(path, {"topic": str}):
                yield place, require_text(row["topic"], place, "topic")
            return
        for place, line in iter_lines(path):
            match = _WHO.match(line.strip())
            yield place, require_text(match.group(1) if match else line, place, "name")
