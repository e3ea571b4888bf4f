"""Lines, JSON and TSV with errors that name file and line."""

import gzip
from pathlib import Path

import pytest

from winnow.errors import InputError, Place
from winnow.formats.text import iter_lines, load_json, read_json_lines, read_tsv


def test_a_malformed_json_line_is_named(tmp_path: Path) -> None:
    """File, line number, what was expected and what was received."""
    path = tmp_path / "x.jsonl"
    path.write_text('{"question": "a"}\n\n{"question": oops}\n')
    with pytest.raises(
        InputError,
        match=r"x\.jsonl, line 3: expected a JSON object with question .*received.*oops",
    ):
        list(read_json_lines(path, {"question": str}))


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    """An object without the field, or with another type, is refused."""
    path = tmp_path / "x.jsonl"
    path.write_text('{"question": 3}\n')
    with pytest.raises(InputError, match="line 1: expected a JSON object with question"):
        list(read_json_lines(path, {"question": str}))


def test_a_truncated_gzip_is_named(tmp_path: Path) -> None:
    """A download cut short never passes for a shorter file."""
    path = tmp_path / "x.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n" * 100_000)[:-40])
    with pytest.raises(InputError, match="Download it again"):
        list(iter_lines(path))


def test_tsv_rows_unquote_and_count_fields(tmp_path: Path) -> None:
    """CSV quoting inside a field is undone; a row of another width is refused."""
    path = tmp_path / "x.tsv"
    path.write_text('q\t"[""a, b"", \'c\']"\nbroken\n')
    rows = read_tsv(path, 2, quoted=True)
    assert next(rows) == (Place(path, 1), ["q", "[\"a, b\", 'c']"])
    with pytest.raises(InputError, match="line 2: expected 2 tab-separated fields, received 1"):
        next(rows)


def test_a_quotation_that_its_field_does_not_close_is_text(tmp_path: Path) -> None:
    """It ends neither its own row nor those below; marks within a field stay; a quoted
    tab is text.
    """
    path = tmp_path / "psgs_w100.tsv"
    rows = [
        ["1", '"Heroes is an album by Bowie', "Heroes"],
        ["2", '"Hello" is a song', "Hello"],
        ["3", 'The song "Low" is on it', '"Low"x'],
        ["4", '"', '""x'],
    ]
    path.write_text(
        "".join("\t".join(row) + "\n" for row in rows) + '5\t"a\tb ""c"""\t"T"\n6\t""\t"x"\n'
    )
    assert [row for _, row in read_tsv(path, 3, quoted=True)] == [
        *rows,
        ["5", 'a\tb "c"', "T"],
        ["6", "", "x"],
    ]
    path.write_text('1\t"a\tb"\tc\td\n')
    with pytest.raises(InputError, match="line 1: expected 3 tab-separated fields, received 5"):
        list(read_tsv(path, 3))
    path.write_text("a\tb\n1\n")
    with pytest.raises(InputError, match="line 2: expected 2 tab-separated fields, received 1"):
        list(read_tsv(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """With what to do."""
    with pytest.raises(InputError, match="File not found"):
        load_json(tmp_path / "none.json")


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    """Excel writes one before the first character."""
    path = tmp_path / "x.tsv"
    path.write_bytes("\ufeffid\tname\n".encode())
    assert list(iter_lines(path)) == [(Place(path, 1), "id\tname")]
