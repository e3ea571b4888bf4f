"""Normalization of answers, by the rules of SQuAD."""

import pytest

from winnow.text.normalization import normalize


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
