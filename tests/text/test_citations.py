"""Sentences with their citations; citations themselves are tested with their metrics."""

import pytest

from winnow.text.citations import split_cited_sentences


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
        ("a\n\n. \nb", ["a", "b"]),
        ("", []),
    ],
)
def test_sentences_end_where_people_end_them(reply: str, sentences: list[str]) -> None:
    """Not after an initial, an abbreviation or the number of an entry; citations belong to the
    sentence before them.
    """
    assert [sentence.strip() for sentence in split_cited_sentences(reply)] == sentences
