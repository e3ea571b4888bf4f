"""Which answers mean "unknown", by example."""

import pytest

from winnow.strategies.unknown import is_unknown


@pytest.mark.parametrize(
    "reply",
    [
        "unknown", "Unknown.", "", "  ", "I don't know", "I do not know.", "No answer",
        "Unknown (not in the text)",
        "The provided input does not contain the context to answer the question.",
        "The answer is not mentioned.", "The context does not mention it", "It is unknown.",
        "Not enough information to tell", "None of the passages says so",
        "The text doesn't mention it.", "I'm not sure", "N/A", "There is no information about it",
        "Unable to determine.",
    ],
)  # fmt: skip
def test_phrasings_of_unknown(reply: str) -> None:
    """A set of phrasings counts, not just the word; an empty reply does too."""
    assert is_unknown(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "The Unknown Soldier",
        "Unknowns",
        "Known",
        "I know: Paris",
        "Nobody",
        "The Answer",
        "A",
        "The",
        "Na",
        "It does state 9",
    ],
)
def test_answers_that_only_look_like_it(reply: str) -> None:
    """Names that hold the word are answers."""
    assert not is_unknown(reply)
