"""Articles by topic, and the passages of one that match a fact best, on which a judge decides."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from winnow.errors import InputError, Place
from winnow.records import Passage

_WORDS = 100
"""Number of words of a passage of an article."""


@dataclass(frozen=True, slots=True)
class Articles:
    """Articles in JSON lines with `title` and `text`, divided into passages of 100 words.

    Attributes:
        passages: Passages of each article, by the title.
        titles: Titles by their lower case.
    """

    passages: Mapping[str, Sequence[Passage]]
    titles: Mapping[str, Sequence[str]]

    def _find(self, topic: str) -> Sequence[Passage] | None:
        """Return the passages of a topic's article, or None if there is none."""
        if topic in self.passages:
            return self.passages[topic]
        titles = self.titles.get(topic.lower(), ())
        return self.passages[titles[0]] if len(titles) == 1 else None

    def select(self, topic: str, fact: str, number: int) -> list[Passage] | None:
        """Return a topic's best passages for a fact by BM25, or None if it has no article.

        The query is the topic and the fact, as in the published code.

        Args:
            topic: Title of the article, in any case if only one article has it then.
            fact: Text to match.
            number: Maximum number of passages, best first. Those of equal scores are in the order
                of the article.
        """
        passages = self._find(topic.strip())
        if passages is None:
            return None
        import bm25s
        import numpy as np

        texts = bm25s.tokenize([passage.text for passage in passages], show_progress=False)
        words = bm25s.tokenize([f"{topic} {fact}"], return_ids=False, show_progress=False)[0]
        known_words = [word for word in words if word and word in texts.vocab]
        scores = np.zeros(len(passages))
        if known_words:
            index = bm25s.BM25(k1=1.5, b=0.75)
            index.index(texts, show_progress=False)
            scores = index.get_scores(known_words)
        return [passages[row] for row in np.argsort(-scores, kind="stable")[:number]]


@lru_cache(maxsize=2)
def load_articles(path: Path, modified: int) -> Articles:  # noqa: ARG001 (an edited file is read again)
    """Load articles; raise InputError if a line has no title or text.

    Args:
        path: File of JSON lines.
        modified: Time of its last change in nanoseconds.
    """
    passages: dict[str, list[Passage]] = {}
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                title, words = row["title"].strip(), row["text"].split()
            except (ValueError, KeyError, TypeError, AttributeError):
                title, words = "", []
            if not title or not words:
                raise InputError.at(
                    Place(path, number), received=line, expected="an object with a title and a text"
                )
            texts = (
                " ".join(words[start : start + _WORDS]) for start in range(0, len(words), _WORDS)
            )
            if title in passages:
                expectation = f"one article of each title; {title!r} has one in a line above"
                raise InputError.at(Place(path, number), received=line, expected=expectation)
            passages[title] = [
                Passage(f"{title}#{index}", title, text) for index, text in enumerate(texts)
            ]
    titles: dict[str, list[str]] = {}
    for title in passages:
        titles.setdefault(title.lower(), []).append(title)
    return Articles(passages, titles)
