"""Selection of the answers that training learns from the accepted answers of a question."""

import unicodedata

from winnow.errors import InputError
from winnow.records import Question

_SYMBOLS = frozenset({"So", "Sk", "Cn", "Co"})
"""Unicode categories of emoji and their modifiers."""


def select_targets(question: Question) -> tuple[str, ...]:
    """Return the answers to train on: the data set's target, or else the writable answers."""
    return (question.target,) if question.target.strip() else select_writable_answers(question)


def require_targets(question: Question) -> tuple[str, ...]:
    """Return the answers that training may learn; raise InputError if there is none."""
    targets = select_targets(question)
    if not targets:
        raise InputError(
            f"Question {question.question_id!r} has no answer that is not blank, which training "
            "learns. Correct the data set, or remove the question from it."
        )
    return targets


def select_writable_answers(question: Question) -> tuple[str, ...]:
    """Return the accepted answers that a person would write.

    Answers that contain a symbol such as an emoji, contain no letter or digit, or are the title of
    a Wikipedia disambiguation page are left out, unless all answers are of these kinds. Blank
    answers are always left out.
    """
    nonblank = tuple(answer for answer in question.answers if answer.strip())
    return tuple(answer for answer in nonblank if _is_writable(answer)) or nonblank


def _is_writable(answer: str) -> bool:
    """Return whether a person would write the answer."""
    has_symbol = any(unicodedata.category(character) in _SYMBOLS for character in answer)
    has_word = any(character.isalnum() for character in answer)
    return has_word and not has_symbol and "(disambiguation)" not in answer.lower()
