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


def test_a_ranking_is_that_of_its_question() -> None:
    """By the text, if the file has it, whatever case and punctuation; else ids that count from 0
    and from 1 are refused.
    """
    hits = {name: [Hit(f"p{name}", None)] for name in ("1", "2")}
    asked = [
        make_question(text, question_id=name)
        for name, text in (("1", "Who sang it?"), ("2", "When?"))
    ]
    texts = {"1": "who sang it", "2": "When?"}
    assert StoredRankings(hits, lambda *_: "", texts).search(asked, 1) == [*hits.values()]
    with pytest.raises(InputError, match=r"'1' is 'Who sang it\?' in the data set and 'When\?'"):
        StoredRankings(hits, lambda *_: "", {"1": "When?"}).search(asked, 1)
    rows = {str(number): [Hit(f"p{number}", None)] for number in range(4)}
    with pytest.raises(InputError, match="count their 4 questions from 0"):
        StoredRankings(rows, lambda *_: "").search(asked, 1)
    first = make_question(question_id="0")
    third = make_question(question_id="3")
    for some in ([first, *asked], asked[1:], [asked[0], third], [*asked, third]):
        assert len(StoredRankings(rows, lambda *_: "").search(some, 1)) == len(some)
    assert len(StoredRankings(rows, lambda *_: "", texts).search(asked, 1)) == 2
    found = StoredRankings({**rows, "7": []}, lambda *_: "").search(asked, 1)
    assert found == [rows["1"], rows["2"]]


def test_questions_without_a_ranking_are_refused() -> None:
    """By the message of the retriever, which receives their ids and the number of all questions."""
    searcher = StoredRankings(
        {"b": []}, lambda missing, number: f"no ranking of {missing} among {number}"
    )
    with pytest.raises(InputError, match=r"no ranking of \['a', 'c'\] among 3"):
        searcher.search(QUESTIONS, 5)
