"""Whether passages contain an answer, as in DPR and FiD, and recall@k."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import regex
from numpy.typing import NDArray

_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")
_MARK = "\x1f"


@lru_cache(maxsize=200_000)
def _key(text: str) -> str:
    """Return the tokens of a text joined and enclosed by a mark that no token contains.

    Contiguous token match then is plain substring search, which C does at memory speed. ASCII text needs no NFD.
    Lower-casing comes after tokenising, as in DPR: lower-casing may change what counts as one token.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFD", text)
    tokens = _TOKEN.findall(text)
    return _MARK + _MARK.join(tokens).lower() + _MARK if tokens else ""


@dataclass(frozen=True, slots=True)
class _Needle:
    """An answer prepared for search.

    `words` are its ASCII tokens, the longest first: a text without one of them as a substring does not contain the answer.
    `literal` is set for answers of ASCII words between single spaces: where it occurs between non-word characters, it
    is a contiguous token match.
    """

    key: str
    words: tuple[str, ...]
    literal: str

    def within(self, text: str, lowered: str) -> bool:
        """Return whether a text contains the answer; the text is tokenised only if its characters do not decide it."""
        for word in self.words:
            if word not in lowered:
                return False
        start = lowered.find(self.literal) if self.literal else -1
        while start >= 0:
            end = start + len(self.literal)
            left, right = lowered[start - 1 : start] or " ", lowered[end : end + 1] or " "
            if not (left.isascii() and right.isascii()):
                return self.key in _key(text)  # a neighbour may decompose to a mark, which would belong to the token
            if not left.isalnum() and not right.isalnum():
                return True
            start = lowered.find(self.literal, start + 1)
        single = self.literal and " " not in self.literal
        return not single and self.key in _key(text)


@lru_cache(maxsize=100_000)
def _needle(answer: str) -> _Needle:
    key = _key(answer)
    tokens = key.split(_MARK)[1:-1]
    plain = all(token.isascii() and token.isalnum() for token in tokens)
    words = sorted({token for token in tokens if token.isascii() and token.isalnum()}, key=len, reverse=True)
    return _Needle(key, tuple(words), " ".join(tokens) if plain else "")


def has_answer(text: str | None, answers: Sequence[str]) -> bool:
    """Return whether a passage's text contains an answer: NFD, Unicode word tokens, lower case, contiguous match.

    As in DPR and FiD, an answer without any token matches every text, and a missing text contains no answer.
    """
    return has_answers([text], answers)[0]


def has_answers(texts: Sequence[str | None], answers: Sequence[str]) -> list[bool]:
    """Return `has_answer` of each text for the same answers."""
    needles = [_needle(answer) for answer in answers]
    if not all(needle.key for needle in needles):
        return [text is not None for text in texts]
    return [text is not None and _contains_any(text, needles) for text in texts]


def _contains_any(text: str, needles: Sequence[_Needle]) -> bool:
    lowered = text.lower()
    return any(needle.within(text, lowered) for needle in needles)


def shortest_contained_answer(text: str, answers: Sequence[str]) -> str:
    """Return the shortest answer that a passage contains, so that it can be read there; the first where it contains none."""
    return min((answer for answer in answers if answer.strip() and has_answer(text, [answer])), key=len, default=answers[0])


def recall_at(flags: Sequence[Sequence[bool]], k: int) -> NDArray[np.float64]:
    """Return (questions,) 1.0 where one of the first k contexts has the answer, else 0.0."""
    return np.array([float(any(row[:k])) for row in flags])
