"""Answer matching in passages, as in DPR and FiD."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import regex

_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")
_SEPARATOR = "\x1f"


@lru_cache(maxsize=200_000)
def _token_string(text: str) -> str:
    """Tokenise a text, and join and enclose the tokens by a separator that no token contains.

    A contiguous token match is then a plain substring search, which is fast. ASCII text needs no NFD. Lower-casing comes
    after tokenising, as in DPR, because it may change what counts as one token.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFD", text)
    tokens = _TOKEN.findall(text)
    return _SEPARATOR + _SEPARATOR.join(tokens).lower() + _SEPARATOR if tokens else ""


@dataclass(frozen=True, slots=True)
class _Needle:
    """An answer prepared for search.

    Attributes:
        key: Tokens of the answer, joined by separators.
        words: ASCII tokens, the longest first. A text that lacks one of them as a substring does not contain the answer.
        literal: The answer as words between single spaces if they are all ASCII letters and digits, else empty. An occurrence
            between non-word characters is a contiguous token match.

    """

    key: str
    words: tuple[str, ...]
    literal: str

    def within(self, text: str, lowered: str) -> bool:
        """Return whether a text contains the answer. The text is tokenised only if a substring search cannot decide."""
        for word in self.words:
            if word not in lowered:
                return False
        start = lowered.find(self.literal) if self.literal else -1
        while start >= 0:
            end = start + len(self.literal)
            previous, following = lowered[start - 1 : start] or " ", lowered[end : end + 1] or " "
            if not (previous.isascii() and following.isascii()):
                return self.key in _token_string(text)  # a neighbour may decompose into a combining mark
            if not previous.isalnum() and not following.isalnum():
                return True
            start = lowered.find(self.literal, start + 1)
        is_single_word = self.literal and " " not in self.literal
        return not is_single_word and self.key in _token_string(text)


@lru_cache(maxsize=100_000)
def _build_needle(answer: str) -> _Needle:
    key = _token_string(answer)
    tokens = key.split(_SEPARATOR)[1:-1]
    all_ascii = all(token.isascii() and token.isalnum() for token in tokens)
    words = sorted({token for token in tokens if token.isascii() and token.isalnum()}, key=len, reverse=True)
    return _Needle(key, tuple(words), " ".join(tokens) if all_ascii else "")


def has_answer(text: str | None, answers: Sequence[str]) -> bool:
    """Return whether the text of a passage contains an answer.

    As in DPR and FiD, both are normalised to NFD, split into Unicode word tokens and lower-cased, and the tokens of the
    answer must occur contiguously. An answer without any token matches every text. A missing text contains no answer.
    """
    return has_answers([text], answers)[0]


def has_answers(texts: Sequence[str | None], answers: Sequence[str]) -> list[bool]:
    """Return `has_answer` for each text, with the same answers."""
    needles = [_build_needle(answer) for answer in answers]
    if not all(needle.key for needle in needles):
        return [text is not None for text in texts]
    return [text is not None and _contains_any(text, needles) for text in texts]


def _contains_any(text: str, needles: Sequence[_Needle]) -> bool:
    lowered = text.lower()
    return any(needle.within(text, lowered) for needle in needles)


def shortest_contained_answer(text: str, answers: Sequence[str]) -> str:
    """Return the shortest answer that a passage contains, or the first answer if it contains none."""
    return min((answer for answer in answers if answer.strip() and has_answer(text, [answer])), key=len, default=answers[0])
