"""Breakdowns: groups of questions for which tables show each cell separately (conf/breakdown/<name>.yaml)."""

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
    """Assigns every question to a group."""

    inputs: ClassVar[frozenset[Input]] = frozenset()

    name: str
    title: str

    @abstractmethod
    def groups(self, samples: Sequence[Sample]) -> list[str]:
        """Return the group of each sample."""


@dataclass(frozen=True)
class MetaField(Breakdown):
    """By a field of the questions' meta, such as "list" (trivia) or "prop" (PopQA)."""

    field: str = ""

    def groups(self, samples: Sequence[Sample]) -> list[str]:
        """Return the field's values, "none" where a question lacks it; raise ConfigError if all do."""
        metas = [json.loads(sample.question.meta) for sample in samples]
        if not any(self.field in meta for meta in metas):
            known = sorted({key for meta in metas for key in meta})
            raise ConfigError(f"breakdown.field={self.field!r}: the questions' meta has {known or 'no fields'}.")
        return [str(meta.get(self.field, "none")) for meta in metas]


@dataclass(frozen=True)
class GoldRank(Breakdown):
    """By the retriever's rank of the best gold passage: 1, up to 5, ..., not retrieved, no gold passage."""

    inputs: ClassVar[frozenset[Input]] = frozenset({"ranking"})
    edges: Sequence[int] = (1, 5, 20, 100)

    def groups(self, samples: Sequence[Sample]) -> list[str]:
        """Return names such as "2-5"."""
        return [self._group([c.rank for c in sample.ranking if c.is_gold]) for sample in samples]

    def _group(self, ranks: Sequence[int]) -> str:
        if not ranks:
            return "no gold passage"
        best = min((rank for rank in ranks if rank), default=0)
        if not best:
            return "not retrieved"
        place = bisect_left(self.edges, best)
        if place == len(self.edges):
            return f"over {self.edges[-1]}"
        low, high = (self.edges[place - 1] + 1 if place else 1), self.edges[place]
        return str(high) if low == high else f"{low}-{high}"


@dataclass(frozen=True)
class RetrievalScore(Breakdown):
    """By the best retriever score of a question, in equally large groups; questions of equal score share one."""

    inputs: ClassVar[frozenset[Input]] = frozenset({"ranking"})
    bins: int = 4

    def groups(self, samples: Sequence[Sample]) -> list[str]:
        """Return names such as "2 of 4", the lowest scores first."""
        best = np.array([max((c.score for c in sample.ranking if c.rank), default=-np.inf) for sample in samples])
        edges = np.quantile(best, np.linspace(0, 1, self.bins + 1)[1:-1]) if len(best) else np.zeros(0)
        return [f"{int(place) + 1} of {self.bins}" for place in np.searchsorted(edges, best, side="left")]


_NUMBER = re.compile(r"^[\d.,\s%$€£-]*\d[\d.,\s%$€£-]*$")
_YEAR = re.compile(r"^(1\d|20)\d\d$")
_PARTICLES = frozenset({"of", "the", "and", "de", "van", "von"})


@dataclass(frozen=True)
class AnswerType(Breakdown):
    """By the form of the first accepted answer: yes/no, year, number, name (capitalised words), other text."""

    def groups(self, samples: Sequence[Sample]) -> list[str]:
        """Return one of "yes/no", "year", "number", "name", "text"."""
        return [answer_type(sample.question.answers[0]) for sample in samples]


def answer_type(answer: str) -> str:
    """Return the form of an answer."""
    text = answer.strip()
    if text.lower() in ("yes", "no"):
        return "yes/no"
    if _YEAR.match(text):
        return "year"
    if _NUMBER.match(text):
        return "number"
    words = [word for word in text.split() if word[0].isalpha() and word.lower() not in _PARTICLES]
    return "name" if words and all(word[0].isupper() for word in words) else "text"
