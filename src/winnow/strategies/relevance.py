"""Plan of the score stage: relevance log-odds of a question's contexts."""

from collections.abc import Sequence

from winnow.records import Context, Estimate, Plan, Question


def estimate_relevance(question: Question, contexts: Sequence[Context]) -> Plan[tuple[float, ...]]:
    """Request the relevance log-odds of every context, in the order of the contexts."""
    scores = yield [Estimate(question.text, c.passage.text, c.passage.title) for c in contexts]
    return tuple(score.value for score in scores)
