"""Strips of texts."""

import pytest

from tests.strategies.corrective.serving import ONE_SENTENCE
from winnow.errors import ConfigError
from winnow.strategies.corrective.segments import FixedWords, SentenceGroups


def test_strips_lose_no_word() -> None:
    """Every segmenter keeps all words in order; blank texts give none."""
    text = (
        "One two three. Four? Five six seven eight nine ten! Dr. No came at 3.5 p.m. and left. " * 7
    )
    for segmenter in (
        SentenceGroups(),
        ONE_SENTENCE,
        SentenceGroups(2, 4),
        FixedWords(),
        FixedWords(7, 3),
    ):
        assert " ".join(segmenter.divide(text)).split() == text.split()
        assert segmenter.divide(" \n") == []
    assert ONE_SENTENCE.divide("A b. C d? E") == ["A b.", "C d?", "E"]
    assert SentenceGroups(1, 3).divide("A b c. D. E f g.") == ["A b c. D.", "E f g."]
    assert FixedWords(2, 2).divide("a b c d e") == ["a b", "c d e"]
    assert FixedWords(2, 1).divide("a b c") == ["a b", "c"]


def test_strips_without_a_sentence_or_word_are_refused() -> None:
    """Each with the value received."""
    for segmenter in (SentenceGroups, FixedWords):
        with pytest.raises(ConfigError, match="size must be at least 1; received 0"):
            segmenter(size=0)
