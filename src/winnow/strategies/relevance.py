"""Relevance estimation for the contexts of one question, as requests that `flows.score` serves."""

from collections.abc import Sequence

from winnow.records import Context, Question
from winnow.requests import Estimate, Plan


def estimate_relevance(question: Question, contexts: Sequence[Context]) -> Plan[tuple[float, ...]]:
    """Request the relevance log-odds of every context, in the order of the contexts."""
    scores = yield [
        Estimate(question.text, context.passage.text, context.passage.title) for context in contexts
    ]
    return tuple(score.value for score in scores)
