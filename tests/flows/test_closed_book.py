"""The closed-book filter's rows."""

from flows.closed_book import build_closed_book_row
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
