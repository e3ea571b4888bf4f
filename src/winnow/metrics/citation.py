"""Citation quality of a reply that cites numbered documents as [n] (RAGE)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from winnow.errors import ConfigError
from winnow.metrics.base import Input, MeanMetric, Sample

Dialect = Literal["rage", "paper"]
_CITATION = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class CitationScore:
    """Precision, recall and F1 (0 to 1) of the citations of one reply."""

    precision: float
    recall: float
    f1: float


def score(reply: str, relevance: Sequence[bool], dialect: Dialect = "rage") -> CitationScore:
    """Score the citations of a reply. Recall is 0 if no document is relevant; RAGE's released code crashes in that case.

    Args:
        reply: Reply that cites documents as [n], from 1.
        relevance: Whether each numbered document is relevant, in their order.
        dialect: "rage", as released, ignores numbers out of range and counts repeated citations once. "paper", as RAGE's
            text describes it, computes precision over all citations, including repeated and out-of-range ones.

    """
    if dialect not in get_args(Dialect):
        raise ConfigError(f"dialect must be one of {', '.join(get_args(Dialect))}; received {dialect!r}.")
    cited = [int(number) for number in _CITATION.findall(reply)]
    valid = {number for number in cited if 1 <= number <= len(relevance)}
    hits = {number for number in valid if relevance[number - 1]}
    if dialect == "paper":
        correct = sum(number in hits for number in cited)
        precision = correct / len(cited) if cited else 0.0
    else:
        precision = len(hits) / len(valid) if valid else 0.0
    recall = len(hits) / sum(relevance) if any(relevance) else 0.0
    total = precision + recall
    return CitationScore(precision, recall, 2 * precision * recall / total if total else 0.0)


@dataclass(frozen=True)
class Citation(MeanMetric):
    """Precision, recall or F1 of the documents that a reply cites; undefined where the prompt shows no gold passage.

    The n-th document is the n-th passage of the final prompt. Gold passages are relevant.

    Args:
        of: "precision", "recall" or "f1".
        dialect: Rules for repeated and out-of-range citations (see `score`).

    """

    revision: ClassVar[int] = 1
    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction", "contexts"})

    of: Literal["precision", "recall", "f1"] = "f1"
    dialect: Dialect = "rage"

    def __post_init__(self) -> None:
        """Raise ConfigError if `of` or the dialect is unknown."""
        score("", (), self.dialect)
        if self.of not in ("precision", "recall", "f1"):
            raise ConfigError(f"metric.{self.name}.of must be precision, recall or f1; received {self.of!r}.")

    @property
    def heading(self) -> str:
        """Return the title with the dialect."""
        return f"{self.title} ({self.dialect})"

    def score(self, sample: Sample) -> float | None:
        """Score the reply's citations."""
        gold = {context.passage.passage_id for context in sample.contexts if context.is_gold}
        relevance = [passage_id in gold for passage_id in sample.prediction.used_ids]
        if not any(relevance):
            return None
        scores = score(sample.prediction.reply, relevance, self.dialect)
        return float(getattr(scores, self.of))
