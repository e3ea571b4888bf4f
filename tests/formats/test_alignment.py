"""The guard against shifted files."""

import random
from pathlib import Path

import pytest

from winnow.errors import InputError
from winnow.formats.alignment import check_alignment

PATH = Path("knowledge.txt")
PUBLISHED = Path(__file__).parents[3] / "shared/data/crag"
NAMES = [f"name{n}" for n in range(40)]
QUESTIONS = [f"What is the occupation of {name}?" for name in NAMES]
TEXTS = [f"{name} was born in a town and worked as a painter" for name in NAMES]


@pytest.mark.parametrize("shift", [-3, -2, -1, 1, 2, 3])
def test_shifts_are_found(shift: int) -> None:
    """Text n belongs to question n - shift; the message names the file, the rows and
    the direction.
    """
    shifted = TEXTS[-shift:] + TEXTS[:-shift]
    direction = "before" if shift > 0 else "after"
    with pytest.raises(
        InputError,
        match=(
            rf"knowledge.txt is shifted: its texts fit the question {abs(shift)} row\(s\) "
            rf"{direction}"
        ),
    ):
        check_alignment(PATH, QUESTIONS, shifted)


def test_right_rows_pass() -> None:
    """Also if some texts are empty or others', if all have nothing in common with the questions,
    and if there are few rows.
    """
    check_alignment(PATH, QUESTIONS, TEXTS)
    damaged = [text if n % 3 else "" for n, text in enumerate(TEXTS)]
    check_alignment(PATH, QUESTIONS, damaged)
    check_alignment(PATH, QUESTIONS, ["nothing at all"] * 40)
    check_alignment(PATH, QUESTIONS, random.Random(1).sample(TEXTS, 40))
    check_alignment(PATH, QUESTIONS[:4], TEXTS[1:5])
    check_alignment(PATH, [], [])


def test_another_number_of_rows_is_refused() -> None:
    """With both numbers."""
    with pytest.raises(InputError, match="has 39 rows, but there are 40 questions"):
        check_alignment(PATH, QUESTIONS, TEXTS[1:])


@pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="CRAG's published inputs are not beside this checkout"
)
def test_published_files_of_crag() -> None:
    """PopQA's knowledge and ARC's choices belong to their questions, and do not once they are
    shifted by one row.
    """
    for questions, texts in (
        ("popqa/sources.txt", "popqa/ref/correct.txt"),
        ("arc_challenge/sources.txt", "arc_challenge/choices.txt"),
    ):
        rows, contents = (
            (PUBLISHED / name).read_text().splitlines() for name in (questions, texts)
        )
        check_alignment(PATH, rows, contents)
        with pytest.raises(InputError, match=r"1 row\(s\) before"):
            check_alignment(PATH, rows, [contents[-1], *contents[:-1]])
