"""JSON lines with columns of any names."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from winnow.errors import ConfigError, InputError
from winnow.formats.columns import Column, read_columns
from winnow.identity.markers import InputFile


@dataclass(frozen=True)
class Parser:
    """Columns of every kind."""

    path: Annotated[str, InputFile]
    question: Annotated[str, Column()] = "q"
    answers: Annotated[str, Column()] = "a"
    gold: Annotated[str, Column(optional=True)] = "g"
    title: Annotated[str, Column(optional=True)] = "t"
    split: Annotated[str, Column(optional=True)] = ""
    meta: Annotated[Sequence[str], Column()] = ()
    id: Annotated[str | None, Column(optional=True, usual=("id", "key"))] = ""
    other: str = "no column"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A file of one line."""
    path = tmp_path / "f.jsonl"
    path.write_text('{"q": " who? ", "a": "[\'A\', 2]", "g": 7, "t": null, "key": 3}\n')
    return str(path)


def test_fields_are_read_by_the_names_of_settings(file: str) -> None:
    """A setting without a column has a default, no ids, or an empty title; a list has several."""
    (row,) = read_columns(Parser(file, meta=("g", "key")), "parser")
    assert row.read_text("question") == "who?"
    assert row.read_answers("answers") == ("A", "2")
    assert (row.read_ids("gold"), row.read_ids("none")) == (("7",), ())
    assert (row.read_title("title"), row.read_title("none")) == ("", "")
    assert (row.read_text("split"), row.read_text("id", default="1")) == ("", "1")
    assert row.values["meta"] == {"g": 7, "key": 3}
    with pytest.raises(InputError, match=r"f.jsonl, line 1: expected a non-empty t"):
        row.read_text("title")


def test_a_missing_column_is_named(file: str) -> None:
    """That of the line, with those it has; that of a setting without a name."""
    with pytest.raises(
        InputError, match=r"line 1 has no column 'x'.*Set parser.question to the right"
    ):
        list(read_columns(Parser(file, question="x"), "parser"))
    with pytest.raises(InputError, match=r"no column 'y'.*Set parser.meta\[1\] to the right"):
        list(read_columns(Parser(file, meta=("g", "y")), "parser"))
    with pytest.raises(ConfigError, match=r"parser.question must be the name of a column"):
        list(read_columns(Parser(file, question=""), "parser"))


@pytest.mark.parametrize(("chosen", "found"), [(None, "3"), ("", "1"), ("g", "7")])
def test_ids_are_from_a_usual_column_unless_one_is_chosen(
    file: str, chosen: str | None, found: str
) -> None:
    """An empty name numbers the lines, and so do lines without a usual column."""
    (row,) = read_columns(Parser(file, id=chosen), "parser")
    assert row.read_text("id", default=str(row.place.number)) == found
    Path(file).write_text('{"q": "who?", "a": "A", "g": 7, "t": null}\n')
    (row,) = read_columns(Parser(file, id=None), "parser")
    assert row.read_text("id", default="1") == "1"
