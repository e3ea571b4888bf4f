"""The answers that training learns from the accepted ones."""

import pytest

from winnow.records import Question
from winnow.targets import select_targets, select_writable_answers


@pytest.mark.parametrize(
    ("answers", "writable"),
    [
        (("Ada", "🎩", "Ada 🎩", "...", "Ada (disambiguation)", " ", "1843"), ("Ada", "1843")),
        (("🎩", "...", ""), ("🎩", "...")),
        (("ADA (Disambiguation)",), ("ADA (Disambiguation)",)),
        ((" ", ""), ()),
        (("東京", "Malmö", "C++"), ("東京", "Malmö", "C++")),
    ],
)
def test_writable_answers(answers: tuple[str, ...], writable: tuple[str, ...]) -> None:
    """Symbols and titles of disambiguation pages only if there is nothing else, blank answers
    never; the order stays.
    """
    assert select_writable_answers(Question("q", "who?", answers)) == writable


def test_the_target_of_the_data_set_comes_first() -> None:
    """A blank one is none."""
    answers = ("Ada", "Ada Lovelace")
    assert select_targets(Question("q", "who?", answers, target="Ada L.")) == ("Ada L.",)
    assert select_targets(Question("q", "who?", answers, target=" ")) == answers
