"""Segmenters, which divide a text into strips of a few sentences for knowledge refinement.

Sentences end at ".", "?" or "!" followed by white space. Abbreviations divide too often, which the
groups make up for.
"""

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol

from annotated_types import Ge

from winnow.identity.values import check_values

_SENTENCE_END = re.compile(r"(?<=[.?!])\s+")


class Segmenter(Protocol):
    """Divides a text into strips."""

    def divide(self, text: str) -> list[str]:
        """Return the strips of a text in order; none if it is blank."""
        ...


@dataclass(frozen=True, slots=True)
class SentenceGroups:
    """Groups of successive sentences.

    Args:
        size: Number of sentences in a strip.
        min_words: Sentences with fewer words are joined to the previous one, or the first one to
            the next.
    """

    revision: ClassVar[int] = 1

    size: Annotated[int, Ge(1)] = 3
    min_words: int = 6

    def __post_init__(self) -> None:
        check_values("segmenter", self)

    def divide(self, text: str) -> list[str]:
        """Return groups of `size` sentences."""
        sentences: list[str] = []
        for sentence in filter(None, _SENTENCE_END.split(text.strip())):
            if (
                sentences
                and min(len(sentence.split()), len(sentences[-1].split())) < self.min_words
            ):
                sentences[-1] = f"{sentences[-1]} {sentence}"
            else:
                sentences.append(sentence)
        return [
            " ".join(sentences[start : start + self.size])
            for start in range(0, len(sentences), self.size)
        ]


@dataclass(frozen=True, slots=True)
class FixedWords:
    """Pieces of a fixed number of words.

    Args:
        size: Number of words in a strip.
        min_words: A last piece with fewer words is joined to the one before.
    """

    revision: ClassVar[int] = 1

    size: Annotated[int, Ge(1)] = 50
    min_words: int = 10

    def __post_init__(self) -> None:
        check_values("segmenter", self)

    def divide(self, text: str) -> list[str]:
        """Return pieces of `size` words."""
        words = text.split()
        pieces = [words[start : start + self.size] for start in range(0, len(words), self.size)]
        if len(pieces) > 1 and len(pieces[-1]) < self.min_words:
            pieces[-2:] = [pieces[-2] + pieces[-1]]
        return [" ".join(piece) for piece in pieces]
