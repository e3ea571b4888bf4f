"""Which of a question's accepted answers training learns."""

import unicodedata

from winnow.records import Question

_SYMBOLS = frozenset({"So", "Sk", "Cn", "Co"})
"""Unicode categories of emoji and their modifiers."""


def targets(question: Question) -> tuple[str, ...]:
    """Return the answers that training may learn: the data set's target or, without one, the writable answers."""
    return (question.target,) if question.target.strip() else writable_answers(question)


def writable_answers(question: Question) -> tuple[str, ...]:
    """Return the accepted answers that a person would write.

    Aliases with a symbol such as an emoji, without any letter or digit, or of a disambiguation page are left out, unless all
    answers are of these kinds. Blank answers are never among them.
    """
    nonblank = tuple(answer for answer in question.answers if answer.strip())
    return tuple(answer for answer in nonblank if _is_writable(answer)) or nonblank


def _is_writable(answer: str) -> bool:
    has_symbol = any(unicodedata.category(character) in _SYMBOLS for character in answer)
    has_word = any(character.isalnum() for character in answer)
    return has_word and not has_symbol and "(disambiguation)" not in answer.lower()
