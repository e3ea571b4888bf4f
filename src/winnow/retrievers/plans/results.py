"""What retrieval plans share: the hits of a search, and passages that are cut for a prompt."""

from dataclasses import replace

from winnow.errors import InputError
from winnow.records import Hit, Passage
from winnow.requests import Failed, Pages


def list_hits(result: Pages | Failed) -> list[Hit]:
    """Return the hits of a search, best first.

    Raises:
        InputError: If the search failed, because a ranking without its passages would count as a
            bad one.
    """
    if isinstance(result, Failed):
        raise InputError(f"A search of a retrieval plan failed: {result.reason}")
    scores = result.scores or (None,) * len(result.passages)
    return [
        Hit(passage.passage_id, score)
        for passage, score in zip(result.passages, scores, strict=True)
    ]


def cut(passage: Passage, max_words: int) -> Passage:
    """Return a passage with its first words; one that is short enough is returned as it is."""
    words = passage.text.split()
    return (
        passage if len(words) <= max_words else replace(passage, text=" ".join(words[:max_words]))
    )
