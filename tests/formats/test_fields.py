"""Values of fields in every form in which files have them."""

from pathlib import Path

import pytest

from winnow.errors import InputError, Place
from winnow.formats.fields import parse_answers, parse_flag, parse_ids, parse_list, require_text

PATH = Path("f")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('["Paris", "City of Paris"]', ["Paris", "City of Paris"]),
        ("['Paris', 'City of Paris']", ["Paris", "City of Paris"]),
        (" ['a', 2, -1.5] ", ["a", 2, -1.5]),
        ("""["it's", 'say "x"']""", ["it's", 'say "x"']),
        (r'["AC\/DC"]', ["AC/DC"]),
        (r'["France", "\ud83c\uddeb\ud83c\uddf7"]', ["France", "\U0001f1eb\U0001f1f7"]),
        (r"['\ud83c\uddeb\ud83c\uddf7']", ["\U0001f1eb\U0001f1f7"]),
        ("['a',\n 'b']", ["a", "b"]),
        ("[]", []),
        ("[1, 2]", [1, 2]),
        ("Paris", ["Paris"]),
        ("[Paris", ["[Paris"]),
        (7, [7]),
        (["a", ["b"]], ["a", ["b"]]),
    ],
)
def test_lists(value: object, expected: list[object]) -> None:
    """Of JSON, of Python, and single values."""
    assert parse_list(value, Place(PATH, 1)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "['France' 'French Republic']",
        "['a'\n'b']",
        "[Paris]",
        "[__import__('os')]",
        r"['\ud83c']",
        "['a'] + ['b']",
        "[1 2]",
    ],
)
def test_texts_in_brackets_that_are_no_lists_are_refused(text: str) -> None:
    """With file and line; nothing is evaluated."""
    with pytest.raises(InputError, match=r"f, line 4: expected a list of answers such as"):
        parse_list(text, Place(PATH, 4))


def test_a_list_may_be_required() -> None:
    """In formats where every row has one."""
    assert parse_list("['a', 2]", Place(PATH, 1), single=False) == ["a", 2]
    for text in ("Paris", "__import__('os')", '{"a": 1}'):
        with pytest.raises(InputError, match="a list of answers"):
            parse_list(text, Place(PATH, 4), single=False)


def test_answers_and_texts() -> None:
    """Empty ones, null and nested lists are refused."""
    assert parse_answers([" a ", "a", "b", 2], Place(PATH, 1)) == ("a", "b", "2")
    for values in (["", " "], []):
        with pytest.raises(InputError, match="f, line 9: expected at least one non-empty answer"):
            parse_answers(values, Place(PATH, 9))
    for values in ([None, "Germany"], [["a"]], [True], [float("nan")]):
        with pytest.raises(
            InputError, match="f, line 9: expected a list of answers, each a string or a number"
        ):
            parse_answers(values, Place(PATH, 9))
    with pytest.raises(InputError, match="non-empty passage"):
        require_text(" ", Place(PATH, 2), "passage")


def test_ids() -> None:
    """One, several, in a text or not; each once."""
    assert parse_ids("p1", Place(PATH, 1), "gold") == ("p1",)
    assert parse_ids(["p1", "p2", "p1"], Place(PATH, 1), "gold") == ("p1", "p2")
    assert parse_ids("['p1', 'p2']", Place(PATH, 1), "gold") == ("p1", "p2")
    assert (parse_ids(None, Place(PATH, 1), "gold"), parse_ids("[]", Place(PATH, 1), "gold")) == (
        (),
        (),
    )
    with pytest.raises(InputError, match="line 1: expected an id or a list of ids as gold"):
        parse_ids("[p1]", Place(PATH, 1), "gold")
    with pytest.raises(InputError, match="non-empty gold"):
        parse_ids([None], Place(PATH, 1), "gold")


def test_flags() -> None:
    """In every form that files have; anything else is refused."""
    assert all(
        parse_flag(value, "x") for value in (True, 1, 1.0, "true", "True", " TRUE ", "1", "yes")
    )
    assert not any(parse_flag(value, "x") for value in (False, 0, 0.0, "false", "False", "0", "no"))
    for value in (None, 2, "", "maybe", [], float("nan")):
        with pytest.raises(ValueError, match="is_gold is neither true nor false"):
            parse_flag(value, "is_gold")


def test_whole_numbers_that_pandas_wrote_as_floats() -> None:
    """1990.0 is the year 1990, as an answer and as an id; 2.5 and texts stay as they are."""
    path = Path("x")
    assert parse_answers([1990.0, 2.5, "3.0", -0.0], Place(path, 1)) == ("1990", "2.5", "3.0", "0")
    assert parse_ids("[12.0, 7]", Place(path, 1), "gold") == ("12", "7")
    assert require_text(12.0, Place(path, 1), "id") == "12"


def test_an_empty_cell_is_no_id() -> None:
    """CSV has no other way to say that a question has no gold passage."""
    assert parse_ids(" ", Place(PATH, 1), "gold") == ()
    with pytest.raises(InputError, match="non-empty gold"):
        parse_ids(["a", ""], Place(PATH, 1), "gold")
