"""TriviaQA's unfiltered JSON."""

import json
from pathlib import Path

import pytest

from winnow.datasets.triviaqa import TriviaQa
from winnow.errors import InputError


def test_value_and_aliases_are_answers(tmp_path: Path) -> None:
    """The value comes first, each alias once."""
    path = tmp_path / "t.json"
    row = {
        "QuestionId": "tc_1",
        "Question": "Who?",
        "Answer": {"Value": "Bob", "Aliases": ["Bob", "Robert"]},
    }
    path.write_text(json.dumps({"Data": [row, {"Question": "no id"}]}))
    questions = iter(TriviaQa(str(path)))
    first = next(questions)
    assert (first.question_id, first.answers) == ("tc_1", ("Bob", "Robert"))
    with pytest.raises(InputError, match="QuestionId, Question and Answer"):
        next(questions)


def test_another_object_is_refused(tmp_path: Path) -> None:
    """The message says what is expected."""
    path = tmp_path / "t.json"
    path.write_text("[]")
    with pytest.raises(InputError, match="`Data`"):
        list(TriviaQa(str(path)))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (7, "QuestionId, Question and Answer"),
        ({"QuestionId": "1", "Question": "Who?", "Answer": "Bob"}, "a list of Aliases"),
        (
            {"QuestionId": "1", "Question": "Who?", "Answer": {"Value": "Bob", "Aliases": "Bob"}},
            "a list of Aliases",
        ),
        (
            {"QuestionId": "1", "Question": "Who?", "Answer": {"Value": "Bob", "Aliases": [None]}},
            "each a string or a number",
        ),
    ],
)
def test_odd_rows_are_named(tmp_path: Path, row: object, message: str) -> None:
    """A string of aliases is no list of letters."""
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"Data": [row]}))
    with pytest.raises(InputError, match=f"record 1: expected .*{message}"):
        list(TriviaQa(str(path)))
