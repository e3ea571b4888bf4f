"""Question files of one's own."""

from pathlib import Path

import pytest

from winnow.datasets.jsonl import JsonlQuestions
from winnow.errors import InputError


def test_columns_have_any_names(tmp_path: Path) -> None:
    """An id column or the line's number, a list of answers or a single one."""
    path = tmp_path / "q.jsonl"
    path.write_text('{"q": "who?", "a": ["A", "B"], "key": "x"}\n\n{"q": "when?", "a": 1984, "key": "y"}\n')
    questions = list(JsonlQuestions(str(path), question="q", answers="a"))
    assert [(q.question_id, q.text, q.answers) for q in questions] == [("1", "who?", ("A", "B")), ("3", "when?", ("1984",))]
    assert [q.question_id for q in JsonlQuestions(str(path), question="q", answers="a", id="key")] == ["x", "y"]


def test_a_missing_column_is_named_with_those_there_are(tmp_path: Path) -> None:
    """File, line, the columns of that line, and the setting."""
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "who?", "answers": ["A"]}\n{"question": "who?", "gold": ["A"]}\n')
    message = r"line 2 has no column 'answers'. Its columns are 'question', 'gold'. Set dataset.parser.answers"
    with pytest.raises(InputError, match=message):
        list(JsonlQuestions(str(path)))
    for value in ("NaN", "true", "[null]", "[Infinity]"):
        path.write_text(f'{{"question": "who?", "answers": {value}}}\n')
        with pytest.raises(InputError, match=r"line 1: expected a list of answers, each a string or a number"):
            list(JsonlQuestions(str(path)))
    path.write_text("[1]\n")
    with pytest.raises(InputError, match=r"line 1: expected a JSON object; received '\[1\]'"):
        list(JsonlQuestions(str(path)))
