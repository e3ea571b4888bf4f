"""Abbreviations."""

import re

import pytest

from winnow.text.abbreviations import NOT_AN_END

END = re.compile(rf"\.{NOT_AN_END}(?:\s|$)")


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("He left.", True),
        ("by Dr. Who", False),
        ("by Dr.", False),
        ("J.", False),
        ("e.g.", False),
        ("it. Not so", True),
        ("Gen. Grant", False),
        ("Apple Inc. was", False),
        ("Apple Inc. She", True),
        ("c. 1500", False),
        ("on Jan. 5, 1990", False),
        ("at 9 a.m. on", False),
        ("at 9 a.m. He", True),
        ("No. 5", False),
        ("No. It is", True),
        ("at Apple Inc.", True),
    ],
)
def test_a_period_after_an_initial_or_an_abbreviation_ends_nothing(text: str, ends: bool) -> None:
    """Any other does; of some, what follows decides."""
    assert bool(END.search(text)) is ends
