"""Lines, JSON objects and TSV rows of text files, gzipped or not. Errors state the file and the line number."""

import ast
import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from winnow.errors import InputError

_MAX_FIELD_LENGTH = 2**31 - 1


def open_text(path: Path) -> IO[str]:
    """Open a UTF-8 text file, gzipped or not, with or without a byte-order mark.

    Raises:
        InputError: If the file does not exist.

    """
    if not path.is_file():
        raise InputError(
            f"There is no file {path}. Run `python -m flows.acquire` for the quick start's files, or correct the path."
        )
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.open(path, "rb"), encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def files_below(root: Path, pattern: str) -> list[Path]:
    """Return the files below a folder that match a glob pattern, sorted, or the path itself if it is a file.

    Raises:
        InputError: If no file matches.

    """
    files = [root] if root.is_file() else sorted(root.rglob(pattern))
    if not files:
        raise InputError(f"No file matches {pattern!r} below {root}. Correct corpus.path or corpus.pattern.")
    return files


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the text of each line that is not blank.

    Raises:
        InputError: If the file is truncated, corrupt, or not UTF-8.

    """
    number = 0
    try:
        with open_text(path) as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise InputError(f"{path} ends or breaks after line {number} ({error}). Fetch the file again.") from error


def json_lines(path: Path, fields: Mapping[str, type | tuple[type, ...]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line number and the object of each line that is not blank.

    Args:
        path: File of JSON lines.
        fields: Required fields of every object, with their types.

    Raises:
        InputError: If a line is not a JSON object with these fields.

    """
    for number, line in numbered_lines(path):
        expected = "a JSON object with " + ", ".join(fields)
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError.at(path, number, received=line, expected=f"{expected} ({error.msg})") from error
        if not isinstance(row, dict) or any(not isinstance(row.get(name), kind) for name, kind in fields.items()):
            raise InputError.at(path, number, received=line, expected=expected)
        yield number, row


def tsv_rows(path: Path, columns: int, *, quoted: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of each row of a tab-separated file.

    Args:
        path: Tab-separated file.
        columns: Required number of fields.
        quoted: Whether fields may be quoted as in CSV.

    Raises:
        InputError: If a row has another number of fields.

    """
    number = 0

    def lines() -> Iterator[str]:
        nonlocal number
        for number, line in numbered_lines(path):  # noqa: B007 (read below)
            yield line + "\n"

    csv.field_size_limit(_MAX_FIELD_LENGTH)
    reader = csv.reader(lines(), delimiter="\t", quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE)
    for row in reader:
        if len(row) != columns:
            content, expected = "\t".join(row), f"{columns} tab-separated fields, received {len(row)}"
            raise InputError.at(path, number, received=content, expected=expected)
        yield number, row


def load_json(path: Path) -> Any:
    """Load a JSON file at once, for formats that are a single value."""
    with open_text(path) as stream:
        try:
            return json.load(stream)
        except json.JSONDecodeError as error:
            raise InputError(f"{path}, line {error.lineno}: not valid JSON ({error.msg}). Fetch the file again.") from error


def python_list(text: str, path: Path, number: int) -> list[str]:
    """Parse a Python or JSON list of strings, as in the TSV files of DPR and PopQA."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = None
    if not isinstance(value, list):
        raise InputError.at(path, number, received=text, expected="a list of answers such as ['Paris', 'City of Paris']")
    return [str(item) for item in value]


def parse_answers(values: object, path: Path, line: int) -> tuple[str, ...]:
    """Strip the answers and remove duplicates, in order.

    Raises:
        InputError: If the answers are not a list of strings or numbers, or if none remains: the question could never be
            answered correctly.

    """
    if not isinstance(values, list | tuple) or not all(isinstance(value, str | int | float) for value in values):
        raise InputError.at(path, line, received=repr(values), expected="a list of answers, each a string or a number")
    answers = dict.fromkeys(text for value in values if (text := str(value).strip()))
    if not answers:
        raise InputError.at(path, line, received=str(list(values)), expected="at least one non-empty answer")
    return tuple(answers)


def require_text(value: object, path: Path, line: int, what: str) -> str:
    """Strip a text; raise InputError if it is empty."""
    text = str(value).strip()
    if not text:
        raise InputError.at(path, line, received=str(value), expected=f"a non-empty {what}")
    return text
