"""Teaching plans: likelihoods of the first answer, and the teacher's own answers with theirs."""

import math

from winnow.records import Decoding, Question
from winnow.requests import Generation, Likelihood, Score
from winnow.strategies.prompt import Prompt
from winnow.strategies.teaching import ScoredReply, Teacher
from winnow.testing import make_context

TEACHER = Teacher(
    Prompt("{contexts} Q {question}", "Q {question}", "{contexts}{candidates}{question}", "{text}"),
    Decoding(8),
)
QUESTION = Question("q1", "Who wrote Emma?", (" ", "Jane Austen", "Austen"))
CONTEXTS = [make_context(1, "one"), make_context(2, "two")]


def test_likelihoods_are_of_the_first_answer_in_each_context() -> None:
    """One request a context, of the first answer that is not blank; the scores come
    back in order.
    """
    plan = TEACHER.request_likelihoods(QUESTION, CONTEXTS)
    requests = next(plan)
    assert [
        (r.messages[0].content, r.continuation) for r in requests if isinstance(r, Likelihood)
    ] == [
        ("one Q Who wrote Emma?", "Jane Austen"),
        ("two Q Who wrote Emma?", "Jane Austen"),
    ]
    assert _finish(plan, [Score(-1.0), Score(-2.0)]) == (-1.0, -2.0)


def test_replies_are_scored_and_unknown_has_no_weight() -> None:
    """Two rounds: answers, then the likelihood of each in its own context."""
    plan = TEACHER.request_scored_replies(QUESTION, CONTEXTS)
    next(plan)
    requests = plan.send([Generation("Answer: Austen"), Generation("unknown")])
    assert [r.continuation for r in requests if isinstance(r, Likelihood)] == ["Austen", "unknown"]
    replies = _finish(plan, [Score(-0.5), Score(-0.1)])
    assert replies == (ScoredReply("Austen", -0.5), ScoredReply("unknown", -math.inf))


def _finish(plan, results):  # type: ignore[no-untyped-def]
    try:
        plan.send(results)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the plan goes on")
