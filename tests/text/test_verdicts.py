"""Verdicts of judges: the first word, whatever encloses it."""

import pytest

from winnow.text.verdicts import read_yes_or_no


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("yes", True),
        ("No.", False),
        ("\u201cYes\u201d", True),
        ("(yes)", True),
        ("**No**", False),
        ("Yes\u2014it is", True),
        ("<think>no</think> Yes, it is no doubt useful.", True),
        ("No, though yes would do", False),
        ("Yes and no.", None),
        ("Yes/No", None),
        ("No doubt, yes.", None),
        ("Perhaps yes", None),
        ("Nobody knows", None),
        ("", None),
    ],
)
def test_a_verdict_is_the_first_word(reply: str, verdict: bool | None) -> None:
    """What has both words at its beginning is none, nor prose."""
    assert read_yes_or_no(reply) is verdict
