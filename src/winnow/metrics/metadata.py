"""Fields of a question's metadata that metrics read."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from winnow.errors import InputError
from winnow.records import Question


def read_field(question: Question, name: str) -> Any:
    """Return a field of the metadata, or None if there is none."""
    fields: Mapping[str, Any] = json.loads(question.meta or "{}")
    return fields.get(name)


def read_list(question: Question, name: str) -> Sequence[Any]:
    """Return a field's list, which is empty if there is none; a text is a list of one.

    Raises:
        InputError: If the field has another form.
    """
    value = read_field(question, name)
    if isinstance(value, str):
        return [value]
    if value is not None and not isinstance(value, list):
        raise build_error(question, name, value, "a list")
    return value or ()


def read_texts(question: Question, name: str) -> Sequence[str]:
    """Return a field's texts as `read_list` does; raise InputError if one of them is no text."""
    values = read_list(question, name)
    for value in values:
        if not isinstance(value, str):
            raise build_error(question, name, value, "a list of texts")
    return values


def build_error(question: Question, name: str, value: Any, expected: str) -> InputError:
    """Build the error for a field of another form."""
    return InputError(
        f"Question {question.question_id!r}: {name} in its metadata must be {expected}; received "
        f"{value!r}."
    )
