"""A "yes" or "no" with which a judge replies."""

import re

from winnow.text.final import extract_final_text

_NO_VERDICT = re.compile(r"yes(?: and| or)? no\b|no(?: and| or)? yes\b|no doubt\b")
"""Beginnings that have one of the words and are not a verdict."""


def read_yes_or_no(reply: str) -> bool | None:
    """Return whether a reply begins with "yes" rather than "no", or None for neither or both."""
    words = re.findall(r"[a-z]+", extract_final_text(reply).lower())
    if not words or _NO_VERDICT.match(" ".join(words)):
        return None
    return {"yes": True, "no": False}.get(words[0])
