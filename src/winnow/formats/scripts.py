"""Scripts whose words no spaces divide: Chinese, Japanese, Thai, Lao, Khmer and Burmese."""

import re
from collections.abc import Iterable

CHARACTERS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u30ff\u31f0-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Ranges of their characters, for a set of a regular expression."""
LANGUAGES = ("chinese", "japanese", "thai", "lao", "khmer", "burmese")
_CHARACTER = re.compile(f"[{CHARACTERS}]")
_PIECE = re.compile(f"[{CHARACTERS}]|[^{CHARACTERS}]+")
_LETTER = re.compile(r"\w")


def is_unspaced(text: str) -> bool:
    """Return whether most letters of a text are of a script without spaces between words."""
    return 2 * len(_CHARACTER.findall(text)) > len(_LETTER.findall(text))


def count_unspaced(texts: Iterable[str]) -> int:
    """Count the texts most of whose letters are of a script without spaces between words."""
    return sum(map(is_unspaced, texts))


def split_unspaced(word: str) -> list[str]:
    """Return the characters of a script without spaces, and what is between them: ["東", "京", "2020", "年"]."""
    return [word] if word.isascii() else _PIECE.findall(word)
