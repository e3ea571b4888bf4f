"""Texts of a number of words."""

from winnow.text.words import cut_words


def test_texts_are_cut_to_words() -> None:
    """A text that is short enough, or has no limit, stays as it is, with its white space."""
    assert cut_words("a  b\nc d", 3) == "a b c"
    assert cut_words("a  b\nc", 3) == cut_words("a  b\nc", None) == "a  b\nc"
