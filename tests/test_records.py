"""Records check themselves."""

import pytest

from winnow.errors import ConfigError
from winnow.records import Decoding, Passage


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        ({"max_new_tokens": 0}, "at least 1"),
        ({"temperature": -1}, "greedy"),
        ({"top_p": 0}, "top_p"),
    ],
)
def test_decoding_out_of_range(bad: dict[str, float], word: str) -> None:
    """Each setting is named with its value."""
    with pytest.raises(ConfigError, match=word):
        Decoding(**bad)  # type: ignore[arg-type]


def test_references_have_the_titles_that_the_reader_saw() -> None:
    """A passage about "she" entails nothing about her without it."""
    assert Passage("p", "Ada Lovelace", "She wrote.").titled_text == "Ada Lovelace\nShe wrote."
    assert Passage("p", "", "She wrote.").titled_text == "She wrote."
