"""Parser of ARC (AI2 Reasoning Challenge): multiple-choice questions in JSON lines."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from winnow.errors import InputError
from winnow.formats.fields import parse_answers, require_text
from winnow.formats.text import read_json_lines
from winnow.identity.markers import InputFile
from winnow.records import Question

LETTERS = "ABCDEFGH"


@dataclass(frozen=True, slots=True)
class Arc:
    """A parser of the files of AllenAI (choices in `question`), the Hugging Face Hub and Self-RAG.

    The text of a question ends with its choices, one per line, which are shown as A, B, C and so on
    even if the file numbers them. The accepted answer is the text of the right choice. `meta`
    stores the choices by letter ("choices"), the letter of the right one ("key"), and its label in
    the file ("file_key"), which differs for numbered choices.
    """

    revision: ClassVar[int] = 1

    path: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        path = Path(self.path)
        for place, row in read_json_lines(path, {"id": str, "answerKey": (str, int)}):
            try:
                stem, choices = _read_choices(row)
            except (KeyError, TypeError, ValueError) as error:
                expectation = (
                    f"a question with choices, each with text and label ({type(error).__name__}: "
                    f"{error})"
                )
                raise InputError.at(place, received=str(row), expected=expectation) from error
            file_key = str(row["answerKey"]).strip()
            labels = [label for label, _ in choices]
            if (
                labels.count(file_key) != 1
                or len(set(labels)) < len(labels)
                or not 1 < len(choices) <= len(LETTERS)
            ):
                expectation = (
                    f"an answerKey that is one of 2 to {len(LETTERS)} distinct labels, which are "
                    f"{labels}"
                )
                raise InputError.at(place, received=repr(file_key), expected=expectation)
            texts = [require_text(text, place, "choice") for _, text in choices]
            by_letter = dict(zip(LETTERS, texts, strict=False))
            question = require_text(stem, place, "question")
            lines = [question, *(f"{letter}: {text}" for letter, text in by_letter.items())]
            right = labels.index(file_key)
            meta = json.dumps(
                {"choices": by_letter, "key": LETTERS[right], "file_key": file_key},
                ensure_ascii=False,
            )
            yield Question(
                require_text(row["id"], place, "id"),
                "\n".join(lines),
                parse_answers([texts[right]], place),
                meta=meta,
            )


def _read_choices(row: dict[str, Any]) -> tuple[Any, list[tuple[str, Any]]]:
    """Return the question without its choices, and the label and text of each choice."""
    question, choices = row["question"], row.get("choices")
    if isinstance(question, dict):
        question, choices = question["stem"], question["choices"]
    if isinstance(choices, list):
        return question, [(str(choice["label"]).strip(), choice["text"]) for choice in choices]
    if not isinstance(choices, dict):
        raise TypeError(f"choices of the type {type(choices).__name__}")
    labels, texts = choices["label"], choices["text"]
    if not isinstance(labels, list) or not isinstance(texts, list):
        raise TypeError("label and text that are not lists")
    return question, [(str(label).strip(), text) for label, text in zip(labels, texts, strict=True)]
