"""Citation quality of a reply that cites numbered documents as [n] (RAGE)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from winnow.errors import ConfigError

Dialect = Literal["rage", "paper"]
_CITATION = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class CitationScore:
    """Precision, recall and F1 (0 to 1) of the citations of one reply."""

    precision: float
    recall: float
    f1: float


def score(reply: str, relevance: Sequence[bool], dialect: Dialect = "rage") -> CitationScore:
    """Score the citations of a reply; `relevance` has one flag per numbered document, in their order.

    `rage` (as released): numbers out of range are dropped without penalty and duplicates collapse. `paper` (RAGE's
    text): precision is over all citations, repeated and out-of-range ones included. Where no relevant document is
    shown recall is 0 (the released code crashes there).
    """
    if dialect not in get_args(Dialect):
        raise ConfigError(f"dialect must be one of {', '.join(get_args(Dialect))}; received {dialect!r}.")
    cited = [int(number) for number in _CITATION.findall(reply)]
    valid = {n for n in cited if 1 <= n <= len(relevance)}
    hits = {n for n in valid if relevance[n - 1]}
    if dialect == "paper":
        correct = sum(n in hits for n in cited)
        precision = correct / len(cited) if cited else 0.0
    else:
        precision = len(hits) / len(valid) if valid else 0.0
    recall = len(hits) / sum(relevance) if any(relevance) else 0.0
    total = precision + recall
    return CitationScore(precision, recall, 2 * precision * recall / total if total else 0.0)
