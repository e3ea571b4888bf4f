"""JSON lines whose columns have any names, which settings of a parser give."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from winnow.errors import ConfigError, InputError, Place
from winnow.formats.fields import parse_answers, parse_ids, parse_list, read_title, require_text
from winnow.formats.text import read_json_lines

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ColumnRow:
    """A line whose fields are read by the names of the settings that name their columns.

    A setting without a column ("") has no field. Errors name the file, the line and the column.

    Attributes:
        place: Place of the line.
        columns: Name of the column in the file, by setting.
        values: Value of the line, by setting.

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
        """Return accepted answers, of which there must be one: a list, also one that is written as
        a text, or a single text or number.
        """
        return parse_answers(parse_list(self.values[setting], self.place), self.place)

    def read_ids(self, setting: str) -> tuple[str, ...]:
        """Return a list of ids, or a single one; there may be none."""
        return parse_ids(self.values.get(setting), self.place, self.columns.get(setting, ""))


def read_columns(
    path: Path, columns: Mapping[str, str], setting: str, *, optional: Collection[str] = ()
) -> Iterator[ColumnRow]:
    """Yield the lines of a file.

    Args:
        path: File of JSON lines.
        columns: Name of the column in the file, or "" for none, by the parser's setting.
        setting: Dotted name of the parser's settings, for the error message.
        optional: Settings that may be "".

    Raises:
        ConfigError: If another setting is "".
        InputError: If a line is not a JSON object, or if it lacks a column. The message lists the
            columns that it has.

    """
    for name, column in columns.items():
        if not column and name not in optional:
            raise ConfigError(
                f"{setting}.{name} must be the name of a column; received {column!r}."
            )
    named = {name: column for name, column in columns.items() if column}
    for place, row in read_json_lines(path, {}):
        for name, column in named.items():
            if column not in row:
                raise InputError(
                    f"{place} has no column {column!r}. Its columns are "
                    f"{', '.join(map(repr, row))}. Set {setting}.{name} to the right one, or "
                    "correct the line."
                )
        yield ColumnRow(place, named, {name: row[column] for name, column in named.items()})


def choose_id_column(path: Path, chosen: str | None, names: Sequence[str], setting: str) -> str:
    """Return the column with the ids, or "" if the lines are numbered.

    Args:
        path: File of JSON lines.
        chosen: Value of the setting; None for the first of the usual names that the first line has,
            which is logged.
        names: Usual names of columns with ids.
        setting: Dotted name of the setting, for the message.

    """
    if chosen is not None:
        return chosen
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
