"""The closed-book filter."""

from winnow.closed_book import closed_book_rows
from winnow.testing import question


def test_kept_are_those_without_exact_match() -> None:
    """Partial credit does not drop a question."""
    rows = list(closed_book_rows([(question(), "Jane Austen!"), (question(question_id="q2"), "Jane")]))
    assert [(row["question_id"], row["em"], row["kept"]) for row in rows] == [("q1", 1.0, False), ("q2", 0.0, True)]
    assert 0 < rows[1]["f1"] < 1
