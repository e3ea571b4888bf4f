"""The plan of the score stage: the estimator's log-odds of a question's contexts."""

from collections.abc import Sequence

from winnow.records import Context, Estimate, Plan, Question


def estimate_relevance(question: Question, contexts: Sequence[Context]) -> Plan[tuple[float, ...]]:
    """Request the log-odds of every context, and return them in order."""
    scores = yield [Estimate(question.text, c.passage.text, c.passage.title) for c in contexts]
    return tuple(score.value for score in scores)
