"""Citations of numbered documents as [n] in replies (dialects: see `winnow.metrics.citation`)."""

import re
import unicodedata
from typing import Literal

from winnow.errors import check_choice
from winnow.text.abbreviations import NOT_AN_END

Dialect = Literal["rage", "paper", "strict"]
_CITATION = re.compile(r"\[(\d+)\]")
_NUMBER = r"\d+(?: ?[-\u2010-\u2015] ?\d+)?"
_DOCUMENT = r"(?:(?:doc|document|documents|docs)\.? ?)?"
_STRICT_CITATION = re.compile(
    rf"\[ ?({_DOCUMENT}{_NUMBER}(?: ?(?:[,;](?: ?and\b)?|and\b) ?{_DOCUMENT}{_NUMBER})*) ?\]",
    re.IGNORECASE,
)
_RANGE = re.compile(r"(\d+)(?: ?[-\u2010-\u2015] ?(\d+))?")
_BRACKETS = str.maketrans("\u3010\u3011\u3014\u3015", "[][]")
_LOOSE_NUMBER = (
    r"(?:(?:documents?|docs?)?\.?\s*)\d+(?:\s*[-\u2010-\u2015]\s*\d+)*"  # also "[1-2-3]"
)
BRACKETED_NUMBER = re.compile(
    rf"[\[\uff3b\u3010\u3014]\s*({_LOOSE_NUMBER}"
    rf"(?:\s*(?:[,;\uff0c\uff1b](?:\s*and\b)?|and\b)\s*{_LOOSE_NUMBER})*)\s*[\]\uff3d\u3011\u3015]",
    re.IGNORECASE,
)
"""One or several numbers in brackets: a citation or, in a passage's text, what looks like one."""
_SPACED_NUMBER = re.compile(r"(?<!\s)\s*" + BRACKETED_NUMBER.pattern, re.IGNORECASE)
"""Such a number with the spaces before it, from their beginning: the time is linear."""
_SENTENCE_END = re.compile(
    rf"(?<=[.!?]){NOT_AN_END}(?<!^\d\.)(?<!^\d\d\.)\s+(?!\[)|(?<=[。！？])\s*(?![\[\s」』”])"
    r"|(?<=[\]])\s*(?=[\u3040-\u30ff\u4e00-\u9fff])"
    r"|(?<=[\]])\s+(?=[A-Z])|\n+",
    re.MULTILINE,
)
_ITEM_END = re.compile(r",(?![^\[\]]*\])")
_CITED_END = re.compile(r"[.!?][\"'”’)»]*\s*(?:\[[^\[\]\n]*\]\s*)+\Z")
"""End of a sentence and its citations. Without it, a citation is in the middle of a sentence."""
_MOST_CITED = 500
"""Number of the last characters in which it is looked for, so that the time is linear."""
_NO_DOCUMENT = 10**9
"""Number of documents that no prompt has; larger numbers are cited as this one."""


def find_citations(reply: str, num_documents: int, dialect: Dialect = "rage") -> list[int]:
    """Return the numbers that a reply cites, in order, each as often as it is cited.

    Args:
        reply: Reply that cites documents as [n], where n starts at 1.
        num_documents: Number of documents. A range such as [2-9] that goes beyond it cites its
            documents and one number without a document.
        dialect: Dialect, which determines what counts as a citation.
    """
    check_choice("dialect", dialect, Dialect)
    if dialect != "strict":
        return [_parse_number(digits) for digits in _CITATION.findall(reply)]
    text = re.sub(r"\s+", " ", unicodedata.normalize("NFKC", reply).translate(_BRACKETS))
    numbers: list[int] = []
    for citation in _STRICT_CITATION.findall(text):
        for first_digits, last_digits in _RANGE.findall(citation):
            first = _parse_number(first_digits)
            last = _parse_number(last_digits) if last_digits else first
            if first > last:
                numbers += [first, last]
            else:
                numbers += range(first, min(last, num_documents) + 1)
                numbers += [last] if last > num_documents else []
    return numbers


def remove_citations(reply: str) -> str:
    """Return a reply without its citations [n], and without the spaces before them."""
    return _SPACED_NUMBER.sub("", reply).strip()


def split_cited_sentences(reply: str) -> list[str]:
    """Divide a reply into its sentences, each with the citations that follow it.

    A sentence ends at ".", "!", "?", their Chinese and Japanese forms, or a line break; not after
    an initial, a common abbreviation, or the number of an entry of a list. ALCE's code divides by
    NLTK's model, which needs a download.
    """
    text = reply.strip()
    parts, start = list[str](), 0
    for end in _SENTENCE_END.finditer(text):
        is_after_citation = end.start() and text[end.start() - 1] == "]" and "\n" not in end[0]
        is_end = not is_after_citation or text[end.end() : end.end() + 1] > "\u3000"
        if is_end or _CITED_END.search(text, max(start, end.start() - _MOST_CITED), end.start()):
            parts.append(text[start : end.start()])
            start = end.end()
    return [part for part in (*parts, text[start:]) if part.strip(" .!?")]


def split_cited_items(reply: str) -> list[str]:
    """Divide a list with commas between its items, each with the citations that follow it."""
    items = _ITEM_END.split(reply.strip().rstrip("."))
    return [item.strip() for item in items if item.strip()]


def _parse_number(digits: str) -> int:
    """Parse digits of any script, capped at `_NO_DOCUMENT`; `int` rejects thousands of digits."""
    significant = "".join(str(int(digit)) for digit in digits).lstrip("0")
    return int(significant or "0") if len(significant) < 10 else _NO_DOCUMENT
