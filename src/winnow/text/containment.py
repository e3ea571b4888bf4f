"""Search for accepted answers in the texts of passages, as in DPR and FiD."""

import itertools
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import regex

_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")
_SEPARATOR = "\x1f"
_KELVIN = "\u212a"
"""The only character beyond ASCII whose lower-case form is an ASCII letter."""


@lru_cache(maxsize=200_000)
def _build_token_string(text: str) -> str:
    """Tokenize a text, and join and enclose the tokens by a separator that no token contains.

    A search for contiguous tokens is then a plain substring search, which is fast. ASCII text needs
    no Unicode normalization. As in DPR, the tokens are lower-cased after tokenizing, because
    lower-casing may change what counts as one token.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFD", text)
    tokens = _TOKEN.findall(text)
    return _SEPARATOR + _SEPARATOR.join(tokens).lower() + _SEPARATOR if tokens else ""


@dataclass(frozen=True, slots=True)
class _PreparedAnswer:
    """An answer in the forms that a search in texts needs.

    Attributes:
        token_string: Tokens of the answer, joined and enclosed by separators; empty if the answer
            has no token.
        ascii_words: ASCII tokens, longest first. A text that lacks one of them as a substring does
            not contain the answer.
        literal: Tokens joined by single spaces if all of them consist of ASCII letters and digits,
            else an empty string. An occurrence between characters that belong to no word is a
            match.
    """

    token_string: str
    ascii_words: tuple[str, ...]
    literal: str

    def occurs_in(self, text: str) -> bool:
        """Return whether a text has the answer; tokenize only if substring search cannot decide."""
        lowered = text.lower()
        for word in self.ascii_words:
            if word not in lowered:
                return False
        start = lowered.find(self.literal) if self.literal else -1
        while start >= 0:
            end = start + len(self.literal)
            previous, next_char = lowered[start - 1 : start] or " ", lowered[end : end + 1] or " "
            if not (previous.isascii() and next_char.isascii()):
                # Unicode normalization may turn a neighboring character into a combining mark of
                # the word.
                return self.token_string in _build_token_string(text)
            if not previous.isalnum() and not next_char.isalnum():
                return True
            start = lowered.find(self.literal, start + 1)
        is_single_word = self.literal and " " not in self.literal
        return not is_single_word and self.token_string in _build_token_string(text)


@lru_cache(maxsize=100_000)
def _prepare_answer(answer: str) -> _PreparedAnswer:
    token_string = _build_token_string(answer)
    tokens = token_string.split(_SEPARATOR)[1:-1]
    all_ascii = all(token.isascii() and token.isalnum() for token in tokens)
    ascii_words = sorted(
        {token for token in tokens if token.isascii() and token.isalnum()}, key=len, reverse=True
    )
    return _PreparedAnswer(token_string, tuple(ascii_words), " ".join(tokens) if all_ascii else "")


def has_answer(text: str | None, answers: Sequence[str]) -> bool:
    """Return whether the text of a passage contains any of the answers.

    As in DPR and FiD, text and answers are normalized to NFD, split into Unicode word tokens and
    lower-cased, and the tokens of an answer must occur contiguously. An answer without any token
    matches every text. A missing text contains no answer.
    """
    return has_answers([text], answers)[0]


def has_answers(texts: Sequence[str | None], answers: Sequence[str]) -> list[bool]:
    """Return for each text whether it contains any of the answers, by the rules of `has_answer`.

    The longest word of an answer is searched for in all texts at once, because most answers occur
    in none or few of them.
    """
    prepared_answers = [_prepare_answer(answer) for answer in answers]
    if not all(answer.token_string for answer in prepared_answers):
        return [text is not None for text in texts]
    present = ["" if text is None else text for text in texts]
    encoded_texts = [text.encode() if text.isascii() else _encode(text) for text in present]
    buffer, starts = (
        _fold_case(b"".join(encoded_texts)),
        list(itertools.accumulate(map(len, encoded_texts), initial=0)),
    )
    flags = [False] * len(present)
    for answer in prepared_answers:
        for index in (
            _find_texts(answer.ascii_words[0], buffer, starts)
            if answer.ascii_words
            else range(len(present))
        ):
            flags[index] = flags[index] or answer.occurs_in(present[index])
    return flags


def _encode(text: str) -> bytes:
    """Encode non-ASCII text in UTF-8, replacing the sign that lowercases to an ASCII letter."""
    return text.replace(_KELVIN, "k").encode("utf-8", "surrogatepass")


def _fold_case(text: bytes) -> bytes:
    """Set the bit that distinguishes ASCII letter case, twenty times as fast as `bytes.lower`.

    Words of lower-case ASCII letters and digits stay as they are. Other characters may become
    letters or digits.
    """
    return (np.frombuffer(text, np.uint8) | 0x20).tobytes()


def _find_texts(word: str, joined: bytes, starts: Sequence[int]) -> Iterator[int]:
    """Yield the index of each text that may contain a word: all that do, and some that do not.

    Args:
        word: Lower-case ASCII letters and digits.
        joined: Texts in UTF-8, one behind the other, with folded case.
        starts: Position of each text in `joined`, followed by the position of the end.
    """
    pattern = word.encode()
    position = joined.find(pattern)
    while position >= 0:
        index = bisect_right(starts, position) - 1
        yield index
        position = joined.find(pattern, starts[index + 1])


def find_shortest_answer(text: str, answers: Sequence[str]) -> str:
    """Return the shortest answer that a passage contains, or the first if it contains none."""
    contained = [answer for answer in answers if answer.strip() and has_answer(text, [answer])]
    return min(contained, key=len, default=answers[0])


def replace_answers(text: str, answers: Sequence[str], replacement: str) -> str:
    """Replace all answers in a text that has one by `has_answer`, preferring longer answers.

    A text whose occurrences depend on Unicode normalization is returned in NFC. Answers without any
    token are not looked for.
    """
    with_tokens = sorted(
        (one for one in answers if _prepare_answer(one).token_string), key=len, reverse=True
    )
    if not has_answers([text], with_tokens)[0] or not with_tokens:
        return text
    pattern = regex.compile("|".join(map(_build_pattern, with_tokens)), regex.IGNORECASE)
    new_text = pattern.sub(lambda _: replacement, text)
    if not has_answer(new_text, with_tokens):
        return new_text
    decomposed_text = pattern.sub(lambda _: replacement, unicodedata.normalize("NFD", text))
    return unicodedata.normalize("NFC", decomposed_text)


def _build_pattern(answer: str) -> str:
    """Return the pattern of an answer's tokens, one after another, with word boundaries."""
    tokens = _TOKEN.findall(unicodedata.normalize("NFD", answer))
    is_word = [bool(regex.fullmatch(r"[\p{L}\p{N}\p{M}]+", token)) for token in tokens]
    pattern = regex.escape(tokens[0])
    for token, pair in zip(tokens[1:], itertools.pairwise(is_word), strict=True):
        pattern += (r"[\p{Z}\p{C}]+" if all(pair) else r"[\p{Z}\p{C}]*") + regex.escape(token)
    start, end = (r"(?<![\p{L}\p{N}\p{M}])", r"(?![\p{L}\p{N}\p{M}])")
    return f"{start if is_word[0] else ''}{pattern}{end if is_word[-1] else ''}"
