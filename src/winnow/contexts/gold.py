"""Gold passages: which contexts they are, and how that is known."""

from collections.abc import Sequence
from dataclasses import replace

from winnow.records import Context, Provenance, Question


def mark_gold(question: Question, contexts: Sequence[Context]) -> tuple[Context, ...]:
    """Mark the gold passages: the annotated ones, or else the best-ranked context that has the answer (distant)."""
    annotated = set(question.gold_passage_ids)
    if annotated:
        return tuple(replace(c, is_gold=c.passage.passage_id in annotated) for c in contexts)
    first = next((c for c in contexts if c.has_answer), None)
    return tuple(replace(c, is_gold=c is first) for c in contexts)


def gold_provenance(question: Question, contexts: Sequence[Context]) -> Provenance:
    """Return how the gold passage of a question is known."""
    if not any(c.is_gold for c in contexts):
        return "none"
    return "annotated" if question.gold_passage_ids else "distant"
