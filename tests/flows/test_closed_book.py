"""The closed-book filter's rows."""

from flows.closed_book import closed_book_row
from winnow.testing import question


def test_kept_are_those_without_exact_match() -> None:
    """Partial credit does not leave a question out of the studies."""
    exact, part = closed_book_row(question(), "Jane Austen!"), closed_book_row(question(question_id="q2"), "Jane")
    assert (exact["question_id"], exact["em"], exact["kept"]) == ("q1", 1.0, False)
    assert (part["question_id"], part["em"], part["kept"]) == ("q2", 0.0, True)
    assert 0 < part["f1"] < 1
