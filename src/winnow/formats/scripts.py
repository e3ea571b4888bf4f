"""Words of texts, also in Chinese, Japanese, Thai, Lao, Khmer and Burmese (without spaces)."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache

CHARACTERS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u30ff\u31f0-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff"
)
"""Ranges of their characters, for a set of a regular expression."""
LANGUAGES = ("chinese", "japanese", "thai", "lao", "khmer", "burmese")
_CHARACTER = re.compile(f"[{CHARACTERS}]")
_PIECE = re.compile(f"[{CHARACTERS}]|[^{CHARACTERS}]+")
_LETTER = re.compile(r"\w")


@cache
def list_marks() -> str:
    """Return all combining marks, which continue a word, such as the vowel signs of Hindi."""
    characters = map(chr, range(0x300, 0x1F000))
    return "".join(one for one in characters if unicodedata.category(one)[0] == "M")


def is_unspaced(text: str) -> bool:
    """Return whether most letters of a text are of a script without spaces between words."""
    return 2 * len(_CHARACTER.findall(text)) > len(_LETTER.findall(text))


def count_unspaced(texts: Iterable[str]) -> int:
    """Count the texts most of whose letters are of a script without spaces between words."""
    return sum(map(is_unspaced, texts))


def split_unspaced(word: str) -> list[str]:
    """Split a word into characters of unspaced scripts and the rest: ["東", "京", "2020", "年"]."""
    return [word] if word.isascii() else _PIECE.findall(word)


def split_words(lines: Iterable[str], words_per_text: int | None) -> Iterator[str]:
    """Yield texts of `words_per_text` words; the last one may be shorter.

    Args:
        lines: Lines, whose words are joined by single spaces.
        words_per_text: Number of words, or None for all of them in one text. A character of a
            script without spaces counts as a word; other words are not divided.
    """
    pieces: list[str] = []
    num_words = 0
    for word in (word for line in lines for word in line.split()):
        for position, piece in enumerate(split_unspaced(word)):
            if num_words == words_per_text:
                yield "".join(pieces)
                pieces, num_words = [], 0
            pieces.append(f" {piece}" if pieces and position == 0 else piece)
            num_words += 1
    if pieces:
        yield "".join(pieces)
