"""Breakdowns divide the questions into groups, so that a table can show every cell by group (conf/breakdown/<name>.yaml)."""

import json
import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from winnow.errors import ConfigError
from winnow.metrics.base import Input, Sample


@dataclass(frozen=True)
class Breakdown(ABC):
    """Base class of breakdowns. A breakdown assigns every question to one group."""

    inputs: ClassVar[frozenset[Input]] = frozenset()

    name: str
    title: str

    @abstractmethod
    def groups(self, samples: Sequence[Sample]) -> list[str]:
        """Return the group of each sample."""


@dataclass(frozen=True)
class MetaField(Breakdown):
    """Group questions by a metadata field of their data set, such as "list" (trivia) or "prop" (PopQA)."""

    revision: ClassVar[int] = 1

    field: str = ""

    def groups(self, samples: Sequence[Sample]) -> list[str]:
        """Return the field's value for each sample, or "none" if the question lacks the field.

        Raises:
            ConfigError: If no question has the field.

        """
        metas = [json.loads(sample.question.meta) for sample in samples]
        if not any(self.field in meta for meta in metas):
            fields = sorted({key for meta in metas for key in meta})
            raise ConfigError(f"breakdown.field={self.field!r}: the questions' meta has {fields or 'no fields'}.")
        return [str(meta.get(self.field, "none")) for meta in metas]


@dataclass(frozen=True)
class GoldRank(Breakdown):
    """Group questions by the rank at which the retriever returned the best gold passage.

    The groups are the rank ranges that end at each of `edges`, a range over the last edge, "not retrieved", and "no gold
    passage".
    """

    revision: ClassVar[int] = 1
    inputs: ClassVar[frozenset[Input]] = frozenset({"ranking"})
    edges: Sequence[int] = (1, 5, 20, 100)

    def groups(self, samples: Sequence[Sample]) -> list[str]:
        """Return the group of each sample, such as "2-5"."""
        return [self._group_of([c.rank for c in sample.ranking if c.is_gold]) for sample in samples]

    def _group_of(self, ranks: Sequence[int]) -> str:
        if not ranks:
            return "no gold passage"
        best_rank = min((rank for rank in ranks if rank), default=0)
        if not best_rank:
            return "not retrieved"
        index = bisect_left(self.edges, best_rank)
        if index == len(self.edges):
            return f"over {self.edges[-1]}"
        low, high = (self.edges[index - 1] + 1 if index else 1), self.edges[index]
        return str(high) if low == high else f"{low}-{high}"


@dataclass(frozen=True)
class RetrievalScore(Breakdown):
    """Group questions by their best retriever score into bins of equal size. Questions of equal score share a bin.

    Questions without a retrieved passage are a group of their own.
    """

    revision: ClassVar[int] = 1
    inputs: ClassVar[frozenset[Input]] = frozenset({"ranking"})
    bins: int = 4

    def groups(self, samples: Sequence[Sample]) -> list[str]:
        """Return the group of each sample, such as "2 of 4", counted from the lowest scores."""
        scores = np.array(
            [max((c.retriever_score() for c in sample.ranking if c.rank), default=-np.inf) for sample in samples]
        )
        retrieved = np.isfinite(scores)
        edges = np.quantile(scores[retrieved], np.linspace(0, 1, self.bins + 1)[1:-1]) if retrieved.any() else np.zeros(0)
        names = [f"{int(index) + 1} of {self.bins}" for index in np.searchsorted(edges, scores, side="left")]
        return [name if known else "nothing retrieved" for name, known in zip(names, retrieved, strict=True)]


_NUMBER = re.compile(r"^[\d.,\s%$€£-]*\d[\d.,\s%$€£-]*$")
_YEAR = re.compile(r"^(1\d|20)\d\d$")
_PARTICLES = frozenset({"of", "the", "and", "de", "van", "von"})


@dataclass(frozen=True)
class AnswerType(Breakdown):
    """Group questions by the form of their first accepted answer; see `answer_type`."""

    revision: ClassVar[int] = 1

    def groups(self, samples: Sequence[Sample]) -> list[str]:
        """Return the form of the first accepted answer of each sample."""
        return [answer_type(sample.question.answers[0]) for sample in samples]


def answer_type(answer: str) -> str:
    """Classify an answer as "yes/no", "year", "number", "name" (capitalised words) or "text" (anything else)."""
    text = answer.strip()
    if text.lower() in ("yes", "no"):
        return "yes/no"
    if _YEAR.match(text):
        return "year"
    if _NUMBER.match(text):
        return "number"
    words = [word for word in text.split() if word[0].isalpha() and word.lower() not in _PARTICLES]
    return "name" if words and all(word[0].isupper() for word in words) else "text"
