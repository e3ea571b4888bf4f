"""Abbreviations."""

import re

import pytest

from winnow.text.abbreviations import NOT_AN_END

END = re.compile(rf"\.{NOT_AN_END}(?:\s|$)")


@pytest.mark.parametrize(
    ("text", "ends"),
    [("He left.", True), ("by Dr.", False), ("J.", False), ("e.g.", False), ("it. Not so.", True)],
)
def test_a_period_after_an_initial_or_an_abbreviation_ends_nothing(text: str, ends: bool) -> None:
    """Any other does."""
    assert bool(END.search(text)) is ends
