"""Field values: texts, ids, answers and flags. Errors report the file, line number and value."""

import ast
import io
import json
import math
import tokenize
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from winnow.errors import InputError, Place
from winnow.formats.text import parse_json

_FLAGS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
"""Texts of flags in lower case."""
_LIST = 'a list of answers such as ["Paris", "City of Paris"]'


def parse_list(
    value: object,
    place: Place,
    *,
    expected: str = _LIST,
    single: bool = True,
) -> list[Any]:
    """Return the items of a list, of a list that is written as a text, or of a single value.

    A text in brackets is a list in JSON's notation or in Python's (texts and numbers between
    commas), as in the TSV files of DPR and PopQA, and in columns that pandas saved. Any other text
    is a single value.

    Args:
        value: Value of the field.
        place: Place of the line or record, for the error message.
        expected: What the field should contain, for the error message.
        single: Whether a single value is accepted.

    Raises:
        InputError: If a text in brackets is not a list, or if the value is a single one and these
            are not accepted.
    """
    if isinstance(value, list | tuple):
        return list(value)
    text = value.strip() if isinstance(value, str) else ""
    if single and not (text.startswith("[") and text.endswith("]")):
        return [value]
    for parse in (parse_json, _parse_python_list):
        try:
            items = parse(text)
        except ValueError:
            continue
        if isinstance(items, list):
            return items
    raise InputError.at(place, received=str(value), expected=expected)


def _parse_python_list(text: str) -> list[Any]:
    """Parse a Python list literal; raise ValueError for anything else or a missing comma."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError) as error:
        raise ValueError("it is not a list in Python's notation") from error
    kinds = [token.type for token in tokens if token.type not in (tokenize.NL, tokenize.COMMENT)]
    if not isinstance(value, list) or any(
        pair == (tokenize.STRING,) * 2 for pair in pairwise(kinds)
    ):
        raise ValueError("a comma is missing")
    return [_join_surrogates(item) for item in value]


def _join_surrogates(item: object) -> object:
    """Join surrogate pairs of a text into characters; raise ValueError if it has half a pair."""
    return (
        item.encode("utf-16", "surrogatepass").decode("utf-16") if isinstance(item, str) else item
    )


def parse_flag(value: object, field_name: str) -> bool:
    """Parse a boolean, which may be a number or a text: true, "False", 1, 0.0, "0" or "yes".

    Raises:
        ValueError: If the value is anything else. The message names the field.
    """
    if isinstance(value, str):
        flag = _FLAGS.get(value.strip().lower())
    else:
        flag = bool(value) if isinstance(value, int | float) and value in (0, 1) else None
    if flag is None:
        raise ValueError(f"{field_name} is neither true nor false: {value!r}")
    return flag


def parse_answers(values: object, place: Place) -> tuple[str, ...]:
    """Strip the answers, and remove empty ones and duplicates. The order is kept.

    Args:
        values: Accepted answers.
        place: Place of the line or record, for the error message.

    Raises:
        InputError: If the answers are not a list of strings or numbers, or if all of them are
            empty.
    """
    if not isinstance(values, list | tuple) or not all(_is_text(value) for value in values):
        expectation = "a list of answers, each a string or a number"
        raise InputError.at(place, received=repr(values), expected=expectation)
    answers = dict.fromkeys(text for value in values if (text := _format(value)))
    if not answers:
        raise InputError.at(
            place,
            received=str(list(values)),
            expected="at least one non-empty answer",
        )
    return tuple(answers)


def _is_text(value: object) -> bool:
    """Return whether a value is a text or a number, unlike true and NaN (pandas' missing value)."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int) and not isinstance(value, bool)


def _format(value: object) -> str:
    """Return a stripped text or number (12 for 12.0, which pandas writes if values are missing)."""
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if is_whole else value).strip()  # type: ignore[call-overload]


def require_text(value: object, place: Place, field_name: str) -> str:
    """Return a string or number as stripped text.

    Args:
        value: Value of the field.
        place: Place of the line or record, for the error message.
        field_name: Name of the field, for the error message.

    Raises:
        InputError: If the text is empty, or if the value has another type.
    """
    text = _format(value) if _is_text(value) else ""
    if not text:
        raise InputError.at(place, received=str(value), expected=f"a non-empty {field_name}")
    return text


def read_title(value: object, place: Place, *, column: str = "title") -> str:
    """Return a passage's stripped title, or "" if it is missing or empty (see `require_text`)."""
    is_blank = value is None or (isinstance(value, str) and not value.strip())
    return "" if is_blank else require_text(value, place, column)


def parse_ids(value: object, place: Place, field_name: str) -> tuple[str, ...]:
    """Return distinct ids as texts from a list (see `parse_list`) or one id. None and "" are none.

    Args:
        value: Value of the field.
        place: Place of the line or record, for the error message.
        field_name: Name of the field, for the error message.

    Raises:
        InputError: If an id is empty, or neither a string nor a number.
    """
    expectation = f"an id or a list of ids as {field_name}"
    is_blank = value is None or (isinstance(value, str) and not value.strip())
    values = [] if is_blank else parse_list(value, place, expected=expectation)
    return tuple(dict.fromkeys(require_text(item, place, field_name) for item in values))


def format_meta(fields: Mapping[str, Any]) -> str:
    """Format further fields of a question as JSON."""
    return json.dumps(fields, ensure_ascii=False, default=str)
