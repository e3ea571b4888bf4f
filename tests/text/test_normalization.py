"""Normalization of answers, by the rules of SQuAD."""

import pytest

from winnow.text.normalization import normalize, normalize_candidate


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Beatles!", "beatles"),
        ("An  apple a day", "apple day"),
        ("U.S.A.", "usa"),
        ("", ""),
        ("the", ""),
    ],
)
def test_normalize_follows_squad(text: str, expected: str) -> None:
    """Lower case, no ASCII punctuation, no articles, single blanks."""
    assert normalize(text) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("The Rome!", "rome"), ("A", "a"), ("(A)", "a"), ("a.", "a"), ("The", "the"), ("+", "+"),
     ("'", "'"), (" () ", "()"), ("", ""), (" ", "")],
)  # fmt: skip
def test_a_candidate_of_articles_or_punctuation_keeps_something(answer: str, expected: str) -> None:
    """Without it, all such answers would be equal."""
    assert normalize_candidate(answer) == expected
