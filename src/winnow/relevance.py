"""The plan of the score stage, probabilities of log-odds, and rows of the relevance artifact."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from winnow.records import Answer, Context, Estimate, Plan, Question


def judge(question: Question, contexts: Sequence[Context], found: dict[str, list[float]]) -> Plan:
    """Ask for the log-odds of each context of a question, and leave them in `found` under its id."""
    scores = yield [Estimate(question.text, c.passage.text, c.passage.title) for c in contexts]
    found[question.question_id] = [score.value for score in scores]
    return Answer("", unknown=False)


def probability(log_odds: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return P("true") of log-odds, without overflow."""
    odds: NDArray[np.float32] = np.exp(-np.abs(log_odds))
    return np.where(log_odds >= 0, 1 / (1 + odds), odds / (1 + odds)).astype(np.float32)


def relevance_rows(question: Question, contexts: Sequence[Context], log_odds: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Yield one row a context."""
    chances = probability(np.array(log_odds, dtype=np.float32)).tolist()
    for context, value, chance in zip(contexts, log_odds, chances, strict=True):
        yield {
            "question_id": question.question_id,
            "passage_id": context.passage.passage_id,
            "log_odds": value,
            "p_true": chance,
        }
