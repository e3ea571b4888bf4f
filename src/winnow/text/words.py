"""Cutting of texts to a number of words."""


def cut_words(text: str, limit: int | None) -> str:
    """Cut a text with more than `limit` words to the first ones, separated by spaces."""
    words = [] if limit is None else text.split()
    return " ".join(words[:limit]) if limit is not None and len(words) > limit else text


def repair_surrogates(text: str) -> str:
    """Return a text with halves of characters, which UTF-8 does not have, replaced by "?"."""
    return text.encode("utf-8", "replace").decode()
