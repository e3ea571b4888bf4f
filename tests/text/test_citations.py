"""Sentences with their citations; citations themselves are tested with their metrics."""

import pytest

from winnow.records import Passage
from winnow.strategies.cite import prepare_passage
from winnow.text.citations import find_citations, remove_citations, split_cited_sentences


@pytest.mark.parametrize(
    ("reply", "sentences"),
    [
        ("Ada wrote it. [1] She was first! [2]", ["Ada wrote it. [1]", "She was first! [2]"]),
        ("Ada wrote it [1]. She was first [2].", ["Ada wrote it [1].", "She was first [2]."]),
        (
            "Dr. Smith discovered it in the U.S. in 1990 [1].",
            ["Dr. Smith discovered it in the U.S. in 1990 [1]."],
        ),
        ("J. K. Rowling wrote it [1].", ["J. K. Rowling wrote it [1]."]),
        (
            "Metals, e.g. iron, rust [1]. Gold vs. iron [2].",
            ["Metals, e.g. iron, rust [1].", "Gold vs. iron [2]."],
        ),
        ("1. Paris [1]\n2. Berlin [2]\n10. Rome", ["1. Paris [1]", "2. Berlin [2]", "10. Rome"]),
        ("It is 7. [1] Then 8.", ["It is 7. [1]", "Then 8."]),
        ("他是作家。[1] 她是诗人。[2] 没有。", ["他是作家。[1]", "她是诗人。[2]", "没有。"]),
        ("他是作家。她是诗人。", ["他是作家。", "她是诗人。"]),
        ("According to document [1] Paris is it.", ["According to document [1] Paris is it."]),
        (
            "According to [1] Paris is it. [2] [3] Rome is not.",
            ["According to [1] Paris is it. [2] [3]", "Rome is not."],
        ),
        ('He said "yes." [1] Then he left.', ['He said "yes." [1]', "Then he left."]),
        ('Big city!" [2] Next one.', ['Big city!" [2]', "Next one."]),
        ("a\n\n. \nb", ["a", "b"]),
        ("", []),
    ],
)
def test_sentences_end_where_people_end_them(reply: str, sentences: list[str]) -> None:
    """Not after an initial, an abbreviation or the number of an entry; citations belong to the
    sentence before them.
    """
    assert [sentence.strip() for sentence in split_cited_sentences(reply)] == sentences


@pytest.mark.parametrize(
    "citation",
    ["[1]", "[1, 2]", "[1 and 2]", "[1, 2, and 3]", "[Doc 1, Doc 2]", "[docs. 1; 2]", "[1-3]",
     "[1\uff0c2]", "\u30101\u3011", "[Document 1 and 3]"],
)  # fmt: skip
def test_what_counts_as_a_citation_is_not_part_of_the_answer(citation: str) -> None:
    """Nor does it stay in the text of a passage, from which a reader could copy it."""
    assert find_citations(citation, 5, "strict")
    assert remove_citations(f"Paris {citation}") == "Paris"
    shown = prepare_passage(Passage("p", "", f"as {citation} shows"), None).text
    assert find_citations(shown, 5, "strict") == []


@pytest.mark.parametrize("text", ["[1 andante]", "[and 1]", "[one]", "[1,]", "[a1]"])
def test_other_brackets_stay(text: str) -> None:
    """They cite nothing."""
    assert find_citations(text, 5, "strict") == []
    assert remove_citations(text) == text


def test_a_reply_of_repeated_citations_takes_linear_time() -> None:
    """Small readers write such replies; it would take minutes otherwise."""
    assert len(split_cited_sentences("[1] " * 20_000 + "A. [2] B")) == 2


@pytest.mark.parametrize("text", ["[1 and2]", "[1, and2]"])
def test_a_word_that_begins_with_and_joins_no_numbers(text: str) -> None:
    """The brackets cite nothing, and stay."""
    assert find_citations(text, 5, "strict") == []
    assert remove_citations(text) == text


def test_several_ranges_in_one_are_removed() -> None:
    """Replies of small models have them."""
    assert remove_citations("Paris [1-2-3] is it [doc 1 - 2 - 4, 5].") == "Paris is it."
