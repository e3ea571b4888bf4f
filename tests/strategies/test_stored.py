"""Answers of another system."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.plans import PROMPT, play
from winnow.errors import InputError
from winnow.records import Decoding
from winnow.strategies.stored import StoredAnswers
from winnow.testing import make_context, make_question


def stored(path: Path, *rows: dict[str, Any], **settings: str) -> StoredAnswers:
    """A file of these rows."""
    path.write_text("\n".join(map(json.dumps, rows)))
    return StoredAnswers(PROMPT, Decoding(), str(path), **settings)


def test_answers_are_found_by_question_id(tmp_path: Path) -> None:
    """Nothing is requested; an empty answer is unknown, and numbers are texts."""
    rows = [
        {"question_id": "q2", "answer": 1984},
        {"question_id": "q1", "answer": " Ada "},
        {"question_id": "q3", "answer": None},
    ]
    strategy = stored(tmp_path / "a.jsonl", *rows)
    answers = [
        play(strategy.plan(make_question(question_id=f"q{n}"), [make_context(1, "x")]), pytest.fail)
        for n in (1, 2, 3)
    ]
    assert [(answer.text, answer.unknown, answer.reply, served) for answer, served in answers] == [
        ("Ada", False, "Ada", []), ("1984", False, "1984", []), ("", True, "", [])
    ]  # fmt: skip


def test_columns_have_any_names(tmp_path: Path) -> None:
    """The reply may be another text than the answer."""
    strategy = stored(
        tmp_path / "a.jsonl",
        {"id": "q1", "out": "Ada", "raw": "Ada [1]"},
        id="id",
        answer="out",
        reply="raw",
    )
    answer, _ = play(strategy.plan(make_question(), []), pytest.fail)
    assert (answer.text, answer.reply) == ("Ada", "Ada [1]")


def test_what_lacks_is_named(tmp_path: Path) -> None:
    """A question without an answer, one with two, and a column."""
    file = tmp_path / "a.jsonl"
    with pytest.raises(InputError, match=r"no answer to question 'q1' .* it has 1 answers"):
        play(
            stored(file, {"question_id": "q2", "answer": "a"}).plan(make_question(), []),
            pytest.fail,
        )
    row = {"question_id": "q1", "answer": "a"}
    with pytest.raises(
        InputError, match="line 2: expected a question that no line before answers; received 'q1'"
    ):
        play(stored(file, row, row).plan(make_question(), []), pytest.fail)
    with pytest.raises(InputError, match=r"has no column 'out'.*Set strategy\.plan\.answer"):
        play(stored(file, row, answer="out").plan(make_question(), []), pytest.fail)


@pytest.mark.parametrize("answer", [["Paris"], {"text": "Paris"}, True, float("nan")])
def test_an_answer_that_is_no_text_is_refused(tmp_path: Path, answer: object) -> None:
    """Its repr would be a wrong answer."""
    with pytest.raises(InputError, match="line 1: expected a non-empty answer"):
        play(
            stored(tmp_path / "a.jsonl", {"question_id": "q1", "answer": answer}).plan(
                make_question(), []
            ),
            pytest.fail,
        )


def test_reasoning_is_no_part_of_a_stored_answer(tmp_path: Path) -> None:
    """Nor of the reply, whose citations are counted."""
    row = {
        "question_id": "q1",
        "answer": "<think>Lyon [1]?</think>Paris",
        "raw": "<think>Lyon [1]?</think>Paris [2]",
    }
    answer, _ = play(
        stored(tmp_path / "a.jsonl", row, reply="raw").plan(make_question(), []), pytest.fail
    )
    assert (answer.text, answer.reply) == ("Paris", "Paris [2]")


@pytest.mark.parametrize("blank", [" ", "\n", ""])
def test_a_blank_answer_is_unknown(tmp_path: Path, blank: str) -> None:
    """Many systems write one for no answer."""
    strategy = stored(tmp_path / "a.jsonl", {"question_id": "q1", "answer": blank})
    answer, _ = play(strategy.plan(make_question(question_id="q1"), []), pytest.fail)
    assert (answer.text, answer.unknown) == ("", True)
