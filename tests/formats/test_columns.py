"""JSON lines with columns of any names."""

from pathlib import Path

import pytest

from winnow.errors import ConfigError, InputError
from winnow.formats.columns import choose_id_column, read_columns


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of one line."""
    path = tmp_path / "f.jsonl"
    path.write_text('{"q": " who? ", "a": "[\'A\', 2]", "g": 7, "t": null, "key": 3}\n')
    return path


def test_fields_are_read_by_the_names_of_settings(file: Path) -> None:
    """A setting without a column has a default, no ids, or an empty title."""
    columns = {"question": "q", "answers": "a", "gold": "g", "title": "t", "split": "", "id": ""}
    (row,) = read_columns(file, columns, "parser", optional=("split", "id"))
    assert row.read_text("question") == "who?"
    assert row.read_answers("answers") == ("A", "2")
    assert (row.read_ids("gold"), row.read_ids("none")) == (("7",), ())
    assert (row.read_title("title"), row.read_title("none")) == ("", "")
    assert (row.read_text("split"), row.read_text("id", default="1")) == ("", "1")
    with pytest.raises(InputError, match=r"f.jsonl, line 1: expected a non-empty t"):
        row.read_text("title")


def test_a_missing_column_is_named(file: Path) -> None:
    """That of the line, with those it has; that of a setting without a name."""
    with pytest.raises(InputError, match=r"line 1 has no column 'x'.*Set parser.text to the right"):
        list(read_columns(file, {"text": "x"}, "parser"))
    with pytest.raises(ConfigError, match=r"parser.text must be the name of a column"):
        list(read_columns(file, {"text": ""}, "parser"))


def test_ids_are_from_a_usual_column_unless_one_is_chosen(file: Path) -> None:
    """An empty name numbers the lines."""
    assert choose_id_column(file, None, ("id", "key"), "parser.id") == "key"
    assert choose_id_column(file, None, ("id",), "parser.id") == ""
    assert choose_id_column(file, "", ("key",), "parser.id") == ""
    assert choose_id_column(file, "q", ("key",), "parser.id") == "q"
