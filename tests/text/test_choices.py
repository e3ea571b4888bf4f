"""Choices that a reply names: see tests/metrics/test_claims.py for the labeled replies."""

import re
from pathlib import Path

import pytest

from winnow.text.choices import parse_choice

CHOICES = {"A": "density", "B": "longer years", "C": "years", "D": "All of the above"}


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("D.C. is close to the sun", None), ("A is wrong, so it is C.", "C"),
        ("The answer is not A but B.", "B"), ("**(C)**", "C"), ("\\boxed{A}", "A"),
        ("B. years", None), ("<think>A?</think>C", "C"), ("Both A and B", None),
        ("A. density\nB. longer years\nC. years\nD. All of the above\nAnswer: B", "B"),
        ("The second option.", "B"),
    ],
)  # fmt: skip
def test_choices_in_words(reply: str, letter: str | None) -> None:
    """An abbreviation is no letter, the last choice wins, and a letter beside the text of another
    choice names none.
    """
    assert parse_choice(reply, CHOICES) == letter


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("B", "B"), ("(b)", "B"), ("B: longer years", "B"), ("The answer is C.", "C"),
        ("Answer: A", "A"), ("option D\n", "D"), ("It is surely longer years, I think", "B"),
        ("years", "C"), ("all of the above", "D"), ("A planet has longer years", "B"),
        ("I choose option C because it fits", "C"), ("density or years", None), ("neither", None),
        ("", None), ("G", None), ("A, B and C are wrong", None), ("Because", None),
    ],
)  # fmt: skip
def test_the_choice_that_a_reply_names(reply: str, letter: str | None) -> None:
    """A letter where letters stand, or the text of one choice alone; an article is no letter."""
    assert parse_choice(reply, CHOICES) == letter


def test_a_long_reply_is_read_at_its_ends() -> None:
    """In a moment, also where it repeats itself."""
    assert parse_choice("B. longer years\n" + "A B C " * 20_000, CHOICES) is not None
    assert parse_choice("x " * 50_000 + "The answer is C.", CHOICES) == "C"


@pytest.mark.parametrize(
    ("reply", "texts", "letter"),
    [
        ("Water boils at 100 °C", ("0°C", "100°C", "37°C", "50°C"), "B"),
        ("It is warm, about 30 °C", ("0 K", "10 K", "20 K", "30 K"), None),
        ("-5 °C", ("-5 °C", "5 °C", "0 °C", "10 °C"), "A"),
        ("-5 °C", ("5 °C", "0 °C", "15 °C", "10 °C"), None),
        ("The answer is −5 °C.", ("5 °C", "-5 °C", "15 °C", "10 °C"), "B"),
        ("1.5 m", ("15 m", "150 m", "1500 m", "1 m"), None),
        ("It would be 1.5 m.", ("15 m", "1.5 m", "1500 m", "1 m"), "B"),
        ("2.0 N", ("0.2 N", "2.0 N", "20 N", "200 N"), "B"),
        ("212 °F", ("1", "2", "3", "4"), None),
        ("a dog.", ("A  dog", "a dog and a cat", "b", "c"), "A"),
    ],
)
def test_numbers_and_units_are_no_letters(
    reply: str, texts: tuple[str, ...], letter: str | None
) -> None:
    """Degrees are not the choice C, and signs and decimal points of numbers count."""
    assert parse_choice(reply, dict(zip("ABCD", texts, strict=True))) == letter


@pytest.mark.parametrize(
    ("reply", "texts", "letter"),
    [
        ("The answer is MgBr_{2}.", ("MgBr", "MgBr_{2}", "Mg_{2}Br", "Br"), "B"),
        ("B MgBr_{2}", ("MgBr", "MgBr_{2}", "Mg_{2}Br", "Br"), "B"),
        ("The answer is a 50 mL cylinder.", ("a ruler", "a 50 mL cylinder", "a cup", "a jar"), "B"),
        ("rr", ("Rr", "rr", "RR", "R"), "B"),
        ("**a magnet**", ("a fork", "a magnet", "a magnet and a fork", "none"), "B"),
        ("15°C is the correct answer.", ("15°C", "5°C", "50°C", "1°C"), "A"),
        ("So the answer is: the Sun", ("the Moon", "the Sun", "Mars", "the Sun and Mars"), "B"),
    ],
)
def test_a_reply_that_is_a_choice_names_it(reply: str, texts: tuple[str, ...], letter: str) -> None:
    """In its case, with its markup and behind a phrase; its article is no letter."""
    assert parse_choice(reply, dict(zip("ABCD", texts, strict=True))) == letter


ARC = Path(__file__).parents[3] / "shared/data/crag/arc_challenge/choices.txt"


@pytest.mark.skipif(not ARC.is_file(), reason="real choices lie in ../shared/data, not here")
@pytest.mark.parametrize("reply", ["The answer is {}.", "**{}**", "It is {}."])
def test_real_choices_are_read_as_themselves(reply: str) -> None:
    """Of 4,600 in CRAG's part of ARC, at most 0.1 %."""
    wrong, number = [], 0
    for line in ARC.read_text(encoding="utf-8").splitlines():
        choices = {one[0]: one[3:] for one in re.split(r"; (?=[A-E]: )", line) if one}
        for letter, text in choices.items():
            number += 1
            is_alone = [" ".join(one.split()) for one in choices.values()].count(text) == 1
            if is_alone and parse_choice(reply.format(text.removesuffix(".")), choices) != letter:
                wrong.append((text, choices))
    print(f"{len(wrong)} of {number} choices are read as another or none: {wrong[:3]}")
    assert number > 4500
    assert len(wrong) <= 0.001 * number
