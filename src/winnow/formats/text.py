"""Readers and writers of JSON Lines, TSV and plain text. Errors report the file and line number."""

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any

from winnow.artifacts.files import atomic_write, iter_files
from winnow.errors import InputError, Place

_READ_ERRORS = (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError)
"""Errors of files that are truncated, corrupt or not UTF-8."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""Escape sequence of half a surrogate pair in JSON."""
_QUOTATION = re.compile(r'"(?:[^"]|"")*"')
"""A quoted field, in which two marks stand for one."""
_FIELD = re.compile(rf"(?<![^\t])(?:{_QUOTATION.pattern}(?=\t|$)|[^\t]*)")
"""A field of a row, which contains tabs only if it is quoted."""


def open_text(path: Path) -> IO[str]:
    """Open a UTF-8 text file, gzipped or not, with or without a byte-order mark.

    Raises:
        InputError: If the file does not exist.
    """
    if not path.is_file():
        raise InputError(
            f"File not found: {path}. Check the path; `python -m flows.acquire dry_run=true` with "
            "the same settings lists what can be downloaded and what must be yours."
        )
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.open(path, "rb"), encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def find_files(root: Path, pattern: str, settings: str) -> list[Path]:
    """Return the sorted files below a folder that match a pattern, or the path if it is a file.

    Hidden files, and those in hidden folders such as `.ipynb_checkpoints`, are left out; those
    behind symbolic links are not.

    Args:
        root: Folder or file.
        pattern: Glob pattern.
        settings: What to check if there is no such file, for the error message.

    Raises:
        InputError: If no file matches, or if the pattern leaves the folder, whose files identify
            what is made of them.
    """
    if ".." in Path(pattern).parts or Path(pattern).is_absolute():
        raise InputError(f"The pattern {pattern!r} leaves the folder {root}. Check {settings}.")
    if root.is_file():
        return [root]
    files = [
        file
        for file in sorted(iter_files(root))
        if not any(part.startswith(".") for part in file.relative_to(root).parts)
        and _matches(file.relative_to(root).parts, ("**", *Path(pattern).parts))
    ]
    if not files:
        raise InputError(f"No file in {root} matches {pattern!r}. Check {settings}.")
    return files


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a glob pattern, of which "**" is any number
    of folders. Python's own search does not enter folders behind symbolic links.
    """
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[start:], pattern[1:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def iter_lines(path: Path, *, blank: bool = False) -> Iterator[tuple[Place, str]]:
    """Yield the place and the text of each line.

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
                    yield Place(path, number), line.rstrip("\r\n")
    except _READ_ERRORS as error:
        raise InputError(
            f"{path} is truncated or corrupt after line {number} ({error}). Download it again, or "
            "save it as UTF-8."
        ) from error


def read_json_lines(
    path: Path, fields: Mapping[str, type | tuple[type, ...]]
) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the place and the object of each line that is not blank.

    Args:
        path: File of JSON lines.
        fields: Required fields of every object, with their types.

    Raises:
        InputError: If a line is not a JSON object with these fields.
    """
    for place, line in iter_lines(path):
        expectation = "a JSON object" + (f" with {', '.join(fields)}" if fields else "")
        try:
            row = parse_json(line)
        except ValueError as error:
            raise InputError.at(
                place, received=line, expected=f"{expectation} ({error})"
            ) from error
        if not isinstance(row, dict) or any(
            not isinstance(row.get(name), kind) for name, kind in fields.items()
        ):
            raise InputError.at(place, received=line, expected=expectation)
        yield place, row


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a text file line by line; it appears when it is complete."""
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def write_json_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object per line; the file appears when it is complete."""
    write_lines(path, (json.dumps(row, ensure_ascii=False) for row in rows))


def read_tsv(
    path: Path, num_columns: int | None = None, *, quoted: bool = False
) -> Iterator[tuple[Place, list[str]]]:
    """Yield the place and the fields of each row of a tab-separated file.

    Args:
        path: Tab-separated file.
        num_columns: Required number of fields per row. By default, that of the first row.
        quoted: Whether fields may be quoted as in CSV. A quotation mark whose quotation the field
            does not close is text.

    Raises:
        InputError: If a row does not have `num_columns` fields.
    """
    for place, line in iter_lines(path):
        row = _split_quoted(line, num_columns) if quoted and '"' in line else line.split("\t")
        num_columns = num_columns or len(row)
        if len(row) != num_columns:
            expectation = f"{num_columns} tab-separated fields, received {len(row)}"
            raise InputError.at(place, received=line, expected=expectation)
        yield place, row


def _split_quoted(line: str, num_columns: int | None) -> list[str]:
    """Split a line of possibly quoted fields. Quoted tabs are text if that fits the field count.

    The module csv reads an unclosed quotation to the end of the file, and drops marks such as those
    of '"Hello" is a song'.
    """
    row = line.split("\t")
    if num_columns is not None and len(row) > num_columns:
        row = [match.group() for match in _FIELD.finditer(line)]
    return list(map(unquote, row))


def unquote(field: str) -> str:
    """Return the text of a field, which may be quoted as in CSV."""
    return field[1:-1].replace('""', '"') if _QUOTATION.fullmatch(field) else field


def read_text(path: Path) -> str:
    """Read a whole text file.

    Raises:
        InputError: If the file does not exist, is truncated, corrupt, or not UTF-8.
    """
    try:
        with open_text(path) as stream:
            return stream.read()
    except _READ_ERRORS as error:
        raise InputError(
            f"{path} is truncated or corrupt ({error}). Download it again, or save it as UTF-8."
        ) from error


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
        ValueError: If the text is not JSON, is nested too deeply, or contains half a surrogate pair
            or a number with too many digits.
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
