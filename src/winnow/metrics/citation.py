"""Citation quality of a reply that cites numbered documents as [n] (RAGE).

A dialect is one of two definitions of precision, which differ in repeated citations and in numbers without a document.
"""

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


def score_citations(reply: str, relevance: Sequence[bool], dialect: Dialect = "rage") -> CitationScore:
    """Compute precision, recall and F1 of the citations of a reply.

    Recall is 0 if no document is relevant. RAGE's released code crashes in that case.

    Args:
        reply: Reply that cites documents as [n], where n starts at 1.
        relevance: Whether each document is relevant, in the order of their numbers.
        dialect: "rage" follows RAGE's released code, which ignores numbers without a document and counts repeated citations
            once. "paper" follows RAGE's paper, which computes precision over all citations.

    """
    if dialect not in get_args(Dialect):
        raise ConfigError(f"dialect must be one of {', '.join(get_args(Dialect))}; received {dialect!r}.")
    cited = [int(number) for number in _CITATION.findall(reply)]
    valid = {number for number in cited if 1 <= number <= len(relevance)}
    relevant = {number for number in valid if relevance[number - 1]}
    if dialect == "paper":
        num_correct = sum(number in relevant for number in cited)
        precision = num_correct / len(cited) if cited else 0.0
    else:
        precision = len(relevant) / len(valid) if valid else 0.0
    recall = len(relevant) / sum(relevance) if any(relevance) else 0.0
    total = precision + recall
    f1 = 2 * precision * recall / total if total else 0.0
    return CitationScore(precision, recall, f1)


@dataclass(frozen=True)
class Citation(MeanMetric):
    """Precision, recall or F1 of the documents that a reply cites.

    The n-th document is the n-th passage of the final prompt. Gold passages are relevant. The metric is undefined for a
    question whose final prompt contains no gold passage.

    Args:
        of: Measure to return: "precision", "recall" or "f1".
        dialect: "rage" ignores repeated citations and numbers without a document; "paper" counts all citations.

    """

    revision: ClassVar[int] = 1
    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction", "contexts"})

    of: Literal["precision", "recall", "f1"] = "f1"
    dialect: Dialect = "rage"

    def __post_init__(self) -> None:
        """Raise ConfigError if `of` or the dialect is unknown."""
        score_citations("", (), self.dialect)
        if self.of not in ("precision", "recall", "f1"):
            raise ConfigError(f"metric.{self.name}.of must be precision, recall or f1; received {self.of!r}.")

    @property
    def heading(self) -> str:
        """Return the title, followed by the dialect in parentheses."""
        return f"{self.title} ({self.dialect})"

    def score(self, sample: Sample) -> float | None:
        """Compute the chosen measure of the reply's citations, or return None if the prompt contains no gold passage."""
        gold = {context.passage.passage_id for context in sample.contexts if context.is_gold}
        relevance = [passage_id in gold for passage_id in sample.prediction.used_ids]
        if not any(relevance):
            return None
        scores = score_citations(sample.prediction.reply, relevance, self.dialect)
        return float(getattr(scores, self.of))
