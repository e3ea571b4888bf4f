"""Mark a question's gold passages, and determine their provenance and which contexts are relevant.

A gold passage is either annotated by the dataset or, by distant supervision, the first context that
contains an answer.
"""

from collections.abc import Sequence
from dataclasses import replace

from winnow.records import Context, Provenance, Question


def mark_gold(question: Question, contexts: Sequence[Context]) -> tuple[Context, ...]:
    """Mark annotated gold passages or, if none are annotated, the first context with an answer."""
    annotated_ids = set(question.gold_passage_ids)
    if annotated_ids:
        return tuple(
            replace(context, is_gold=context.passage.passage_id in annotated_ids)
            for context in contexts
        )
    first_match = next((context for context in contexts if context.has_answer), None)
    return tuple(replace(context, is_gold=context is first_match) for context in contexts)


def is_relevant(context: Context) -> bool:
    """Return whether a context counts as relevant: it is a gold passage or contains an answer."""
    return context.is_gold or context.has_answer


def determine_provenance(question: Question, contexts: Sequence[Context]) -> Provenance:
    """Return whether the gold passages are "annotated" or "distant", or "none" if there is none."""
    if not any(context.is_gold for context in contexts):
        return "none"
    return "annotated" if question.gold_passage_ids else "distant"
