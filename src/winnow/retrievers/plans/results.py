"""The hits of searches that a plan requested."""

from winnow.errors import InputError
from winnow.records import Failed, Hit, Pages


def list_hits(result: Pages | Failed) -> list[Hit]:
    """Return the hits of a search, best first.

    Raises:
        InputError: If the search failed, because a ranking without its passages would count as a bad one.

    """
    if isinstance(result, Failed):
        raise InputError(f"A search of a retrieval plan failed: {result.reason}")
    scores = result.scores or (None,) * len(result.passages)
    return [Hit(passage.passage_id, score) for passage, score in zip(result.passages, scores, strict=True)]
