"""Readers and writers of text files: JSON Lines, TSV and plain text. Errors report the file and the line number."""

import ast
import csv
import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from winnow.artifacts.files import atomic_write
from winnow.errors import InputError

_MAX_FIELD_LENGTH = 2**31 - 1
_READ_ERRORS = (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError)
"""Errors of files that are truncated, corrupt or not UTF-8."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""Escape sequence of half a surrogate pair in JSON."""


def open_text(path: Path) -> IO[str]:
    """Open a UTF-8 text file, gzipped or not, with or without a byte-order mark.

    Raises:
        InputError: If the file does not exist.

    """
    if not path.is_file():
        raise InputError(
            f"File not found: {path}. Check the path, or run `python -m flows.acquire` to download the quick start's files."
        )
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.open(path, "rb"), encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def find_files(root: Path, pattern: str, settings: str) -> list[Path]:
    """Return the sorted files below a folder that match a glob pattern. If the path is a file, return only this file.

    Args:
        root: Folder or file.
        pattern: Glob pattern.
        settings: What to check if there is no such file, for the error message.

    Raises:
        InputError: If no file matches.

    """
    files = [root] if root.is_file() else sorted(root.rglob(pattern))
    if not files:
        raise InputError(f"No file in {root} matches {pattern!r}. Check {settings}.")
    return files


def iter_lines(path: Path, *, blank: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the number, which starts at 1, and the text of each line.

    Args:
        path: File of text.
        blank: Whether to yield blank lines, too.

    Raises:
        InputError: If the file is truncated, corrupt, or not UTF-8.

    """
    number = 0
    try:
        with open_text(path) as stream:
            for number, line in enumerate(stream, start=1):
                if blank or line.strip():
                    yield number, line.rstrip("\r\n")
    except _READ_ERRORS as error:
        raise InputError(
            f"{path} is truncated or corrupt after line {number} ({error}). Download it again, or save it as UTF-8."
        ) from error


def read_json_lines(path: Path, fields: Mapping[str, type | tuple[type, ...]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line number and the object of each line that is not blank.

    Args:
        path: File of JSON lines.
        fields: Required fields of every object, with their types.

    Raises:
        InputError: If a line is not a JSON object with these fields.

    """
    for number, line in iter_lines(path):
        expected = "a JSON object" + (f" with {', '.join(fields)}" if fields else "")
        try:
            row = parse_json(line)
        except ValueError as error:
            raise InputError.from_line(path, number, received=line, expected=f"{expected} ({error})") from error
        if not isinstance(row, dict) or any(not isinstance(row.get(name), kind) for name, kind in fields.items()):
            raise InputError.from_line(path, number, received=line, expected=expected)
        yield number, row


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a text file line by line; it appears when it is complete."""
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object per line; the file appears when it is complete."""
    write_lines(path, (json.dumps(row, ensure_ascii=False) for row in rows))


def read_columns(path: Path, columns: Mapping[str, str], setting: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line number and the configured columns of each JSON line, by the names that the parser gives them.

    Args:
        path: File of JSON lines.
        columns: Name of the column in the file, by the name of the parser's setting.
        setting: Dotted name of the parser's settings, for the error message.

    Raises:
        InputError: If a line is not a JSON object, or if it lacks a column. The message lists the columns that it has.

    """
    for line_number, row in read_json_lines(path, {}):
        for name, column in columns.items():
            if column not in row:
                raise InputError(
                    f"{path}, line {line_number} has no column {column!r}. Its columns are {', '.join(map(repr, row))}. Set "
                    f"{setting}.{name} to the right one, or correct the line."
                )
        yield line_number, {name: row[column] for name, column in columns.items()}


def read_tsv(path: Path, num_columns: int, *, quoted: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of each row of a tab-separated file.

    Args:
        path: Tab-separated file.
        num_columns: Required number of fields per row.
        quoted: Whether fields may be quoted as in CSV.

    Raises:
        InputError: If a row does not have `num_columns` fields.

    """
    number = 0

    def iter_raw_lines() -> Iterator[str]:
        nonlocal number
        for number, line in iter_lines(path):  # noqa: B007 (read below)
            yield line + "\n"

    csv.field_size_limit(_MAX_FIELD_LENGTH)
    reader = csv.reader(iter_raw_lines(), delimiter="\t", quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE)
    try:
        for row in reader:
            if len(row) != num_columns:
                expected = f"{num_columns} tab-separated fields, received {len(row)}"
                raise InputError.from_line(path, number, received="\t".join(row), expected=expected)
            yield number, row
    except csv.Error as error:
        raise InputError(f"{path}, line {number} is not a row of tab-separated fields ({error}). Correct it.") from error


def read_text(path: Path) -> str:
    """Read a whole text file.

    Raises:
        InputError: If the file does not exist, is truncated, corrupt, or not UTF-8.

    """
    try:
        with open_text(path) as stream:
            return stream.read()
    except _READ_ERRORS as error:
        raise InputError(f"{path} is truncated or corrupt ({error}). Download it again, or save it as UTF-8.") from error


def load_json(path: Path) -> Any:
    """Load a file that contains a single JSON value.

    Raises:
        InputError: If the file cannot be read or is not valid JSON.

    """
    text = read_text(path)
    try:
        return parse_json(text)
    except ValueError as error:
        raise InputError(f"{path} is not valid JSON ({error}). Download it again.") from error


def parse_json(text: str) -> Any:
    """Parse JSON whose texts can be encoded as UTF-8.

    Raises:
        ValueError: If the text is not JSON, is nested too deeply, or contains half a surrogate pair or a number with too many
            digits.

    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("it contains half a surrogate pair") from None
    return value


def parse_string_list(text: str, path: Path, line: int) -> list[str]:
    """Parse a list of strings in Python's notation, as in the TSV files of DPR and PopQA.

    Args:
        text: List to parse.
        path: File that contains the list, for the error message.
        line: Number of its line, for the error message.

    Raises:
        InputError: If the text is not a list.

    """
    try:
        value = ast.literal_eval(text)
        str(value).encode()
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        value = None
    if not isinstance(value, list):
        raise InputError.from_line(path, line, received=text, expected="a list of answers such as ['Paris', 'City of Paris']")
    return [str(item) for item in value]


def parse_answers(values: object, path: Path, line: int, *, unit: str = "line") -> tuple[str, ...]:
    """Strip the answers, and remove empty ones and duplicates. The order is kept.

    Args:
        values: Accepted answers.
        path: File that contains the answers, for the error message.
        line: Number of their line or record, for the error message.
        unit: What the number counts; see `InputError.from_line`.

    Raises:
        InputError: If the answers are not a list of strings or numbers, or if all of them are empty.

    """
    if not isinstance(values, list | tuple) or not all(_is_text(value) for value in values):
        expected = "a list of answers, each a string or a number"
        raise InputError.from_line(path, line, received=repr(values), expected=expected, unit=unit)
    answers = dict.fromkeys(text for value in values if (text := str(value).strip()))
    if not answers:
        raise InputError.from_line(path, line, received=str(list(values)), expected="at least one non-empty answer", unit=unit)
    return tuple(answers)


def _is_text(value: object) -> bool:
    """Return whether a value is a text or a number. NaN, which pandas writes for a missing value, and true are neither."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int) and not isinstance(value, bool)


def require_text(value: object, path: Path, line: int, field_name: str, *, unit: str = "line") -> str:
    """Return a string or number as stripped text.

    Args:
        value: Value of the field.
        path: File that contains the field, for the error message.
        line: Number of its line or record, for the error message.
        field_name: Name of the field, for the error message.
        unit: What the number counts; see `InputError.from_line`.

    Raises:
        InputError: If the text is empty, or if the value has another type.

    """
    text = str(value).strip() if _is_text(value) else ""
    if not text:
        raise InputError.from_line(path, line, received=str(value), expected=f"a non-empty {field_name}", unit=unit)
    return text


def read_title(value: object, path: Path, line: int, *, column: str = "title", unit: str = "line") -> str:
    """Return the title of a passage as stripped text, or "" if it is missing, null or empty; see `require_text`."""
    is_blank = value is None or (isinstance(value, str) and not value.strip())
    return "" if is_blank else require_text(value, path, line, column, unit=unit)


def parse_ids(value: object, path: Path, line: int, field_name: str, *, unit: str = "line") -> tuple[str, ...]:
    """Return the ids in a list, or a single one, as texts without duplicates. None and an empty list are no ids.

    Args:
        value: Value of the field.
        path: File that contains the field, for the error message.
        line: Number of its line or record, for the error message.
        field_name: Name of the field, for the error message.
        unit: What the number counts; see `InputError.from_line`.

    Raises:
        InputError: If an id is empty, or neither a string nor a number.

    """
    values = [] if value is None else value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(require_text(item, path, line, field_name, unit=unit) for item in values))


def format_meta(fields: Mapping[str, Any]) -> str:
    """Format further fields of a question as JSON."""
    return json.dumps(fields, ensure_ascii=False, default=str)
