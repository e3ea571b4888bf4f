"""JSON lines whose columns have any names, which settings of a parser give."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from winnow.errors import ConfigError, InputError, Place
from winnow.formats.fields import parse_answers, parse_ids, parse_list, read_title, require_text
from winnow.formats.text import read_json_lines
from winnow.identity.markers import read_annotations

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """A line whose fields are read by the names of the settings that name their columns.

    A setting without a column ("") has no field. Errors name the file, the line and the column.

    Attributes:
        place: Place of the line.
        columns: Name of the column in the file, by setting.
        values: Value of the line, by setting; of a list of columns, the values by column.
    """

    place: Place
    columns: Mapping[str, str]
    values: Mapping[str, Any]

    def read_text(self, setting: str, default: str = "") -> str:
        """Return a text that is not empty, or the default without a column."""
        if setting not in self.values:
            return default
        return require_text(self.values[setting], self.place, self.columns[setting])

    def read_title(self, setting: str) -> str:
        """Return the title of a passage, or "" if it is missing, null or empty."""
        column = self.columns.get(setting, "title")
        return read_title(self.values.get(setting), self.place, column=column)

    def read_answers(self, setting: str) -> tuple[str, ...]:
        """Return at least one answer from a list, a list written as text, a text or a number."""
        return parse_answers(parse_list(self.values[setting], self.place), self.place)

    def read_ids(self, setting: str) -> tuple[str, ...]:
        """Return a list of ids, or a single one; there may be none."""
        return parse_ids(self.values.get(setting), self.place, self.columns.get(setting, ""))


@dataclass(frozen=True, slots=True)
class Column:
    """Marks a parameter of a parser that names a column of its file, as in
    `text: Annotated[str, Column()]`; of a list, each entry names one.

    Attributes:
        optional: Whether "" is a value, for no column.
        usual: Names of which the first that the first line has is taken, with a note, if the
            parameter is None.
    """

    optional: bool = False
    usual: tuple[str, ...] = ()


def read_columns(parser: Any, setting: str) -> Iterator[ColumnRow]:
    """Yield the lines of the file of a parser, whose parameters name the columns (`Column`).

    Args:
        parser: Parser with the parameter `path`, a file of JSON lines.
        setting: Dotted name of the parser's settings, for messages.

    Raises:
        ConfigError: If a column that is not optional has no name.
        InputError: If a line is not a JSON object, or if it lacks a column. The message lists the
            columns that it has.
    """
    path, parser_class = Path(parser.path), parser.__class__
    markers = {
        name: marker
        for name, annotation in read_annotations(parser_class).items()
        for marker in getattr(annotation, "__metadata__", ())
        if isinstance(marker, Column)
    }
    columns: dict[str, str] = {}
    lists: dict[str, Sequence[str]] = {}
    for name, marker in markers.items():
        value = getattr(parser, name)
        if value is None:
            value = _choose_column(path, marker.usual, f"{setting}.{name}")
        if not isinstance(value, str):
            lists[name] = value
        elif value or not marker.optional:
            columns[name] = value
    for name, column in columns.items():
        if not column:
            raise ConfigError(
                f"{setting}.{name} must be the name of a column; received {column!r}."
            )
    required_columns = columns | {
        f"{name}[{number}]": column
        for name, column_names in lists.items()
        for number, column in enumerate(column_names)
    }
    for place, row in read_json_lines(path, {}):
        for name, column in required_columns.items():
            if column not in row:
                raise InputError(
                    f"{place} has no column {column!r}. Its columns are "
                    f"{', '.join(map(repr, row))}. Set {setting}.{name} to the right one, or "
                    "correct the line."
                )
        values: dict[str, Any] = {name: row[column] for name, column in columns.items()}
        values |= {
            name: {one: row[one] for one in column_names} for name, column_names in lists.items()
        }
        yield ColumnRow(place, columns, values)


def _choose_column(path: Path, names: Sequence[str], setting: str) -> str:
    """Return and log the first name that is a column of a file's first line, or return ""."""
    first: Mapping[str, Any] = next((row for _, row in read_json_lines(path, {})), {})
    column = next((name for name in names if name in first), "")
    if column:
        _LOGGER.info(
            "%s: ids are from the column %r. With %s='' they are the numbers of the lines.",
            path,
            column,
            setting,
        )
    return column
