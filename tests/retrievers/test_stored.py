"""Rankings of a file in place of a search."""

import pytest

from winnow.errors import InputError
from winnow.records import Hit
from winnow.retrievers.stored import StoredRankings
from winnow.testing import make_question

QUESTIONS = [make_question(question_id=name) for name in ("a", "b", "c")]


def test_rankings_are_found_by_question_id() -> None:
    """In the order of the questions and cut at the depth; a short ranking stays short."""
    rankings = {"c": [Hit("p3", 3.0)], "b": [], "a": [Hit("p1", 2.0), Hit("p2", 1.0)]}
    searcher = StoredRankings(rankings, lambda missing, number: f"{missing} of {number}")
    assert searcher.search(QUESTIONS, 1) == [[Hit("p1", 2.0)], [], [Hit("p3", 3.0)]]
    assert searcher.search(QUESTIONS[:1], 5) == [[Hit("p1", 2.0), Hit("p2", 1.0)]]


def test_questions_without_a_ranking_are_refused() -> None:
    """By the message of the retriever, which receives their ids and the number of all questions."""
    searcher = StoredRankings(
        {"b": []}, lambda missing, number: f"no ranking of {missing} among {number}"
    )
    with pytest.raises(InputError, match=r"no ranking of \['a', 'c'\] among 3"):
        searcher.search(QUESTIONS, 5)
