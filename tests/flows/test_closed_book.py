"""The closed-book filter's rows."""

import pytest

from flows.closed_book import build_closed_book_row
from flows.project.checks import FILTER, check_answers
from winnow.errors import ConfigError
from winnow.testing import make_question


def test_kept_are_those_without_exact_match() -> None:
    """Partial credit does not leave a question out of the studies."""
    exact, part = (
        build_closed_book_row(make_question(), "Jane Austen!"),
        build_closed_book_row(make_question(question_id="q2"), "Jane"),
    )
    assert (exact["question_id"], exact["em"], exact["kept"]) == ("q1", 1.0, False)
    assert (part["question_id"], part["em"], part["kept"]) == ("q2", 0.0, True)
    assert 0 < part["f1"] < 1


def test_questions_without_accepted_answers_are_refused() -> None:
    """Such as those of BEIR: the filter compares answers."""
    check_answers([("Paris",)], "nq", FILTER)
    message = r"1 of 2 questions of dataset=beir have no accepted answer.*closed_book_filter=false"
    with pytest.raises(ConfigError, match=message):
        check_answers([("Paris",), ()], "beir", FILTER)
