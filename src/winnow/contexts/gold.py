"""Gold passages: marking them among the contexts, and their provenance."""

from collections.abc import Sequence
from dataclasses import replace

from winnow.records import Context, Provenance, Question


def mark_gold(question: Question, contexts: Sequence[Context]) -> tuple[Context, ...]:
    """Mark the annotated gold passages or, if none are annotated, the first context that contains an answer (distant)."""
    annotated = set(question.gold_passage_ids)
    if annotated:
        return tuple(replace(c, is_gold=c.passage.passage_id in annotated) for c in contexts)
    first_match = next((c for c in contexts if c.has_answer), None)
    return tuple(replace(c, is_gold=c is first_match) for c in contexts)


def gold_provenance(question: Question, contexts: Sequence[Context]) -> Provenance:
    """Return how the gold passages of a question are known: annotated, distant, or none."""
    if not any(c.is_gold for c in contexts):
        return "none"
    return "annotated" if question.gold_passage_ids else "distant"
