"""Relevance scores of an estimator and of a judge."""

import math

import pytest

from tests.plans import play
from tests.strategies.corrective.serving import QUESTION, serve
from winnow.errors import ConfigError
from winnow.records import Decoding, Passage
from winnow.requests import Estimate, Failed, Generate, Generation, Message, Score
from winnow.strategies.corrective.evaluators import (
    EstimatedRelevance,
    JudgedRelevance,
    parse_verdict,
)


def test_a_judge_may_be_the_evaluator() -> None:
    """Its last verdict counts; a reply without one and a refused call are failures."""
    judge = JudgedRelevance("Q {question} P {title} {text}", 64, reasons=True)
    replies = {
        "a": "No wait. Yes.",
        "b": "no",
        "c": "perhaps",
        "d": Failed("moderated"),
        "e": "Noah said so",
    }
    passages = [Passage(name, "T", name) for name in replies]
    evaluation, served = play(
        judge.evaluate(QUESTION, passages),
        serve({}, reply=lambda request: replies[request.messages[0].content[-1]]),
    )
    assert evaluation.scores == (1.0, -1.0, -1.0, -1.0, -1.0)
    assert evaluation.failed == 3
    assert isinstance(served[0], Generate)
    assert (served[0].messages, served[0].decoding) == (
        (Message("user", "Q who? P T a"),),
        Decoding(max_new_tokens=64),
    )
    assert all(
        isinstance(request, Generate) and request.may_fail and request.role == "judge"
        for request in served
    )
    assert parse_verdict("<think>No wait.</think>Yes") == 1.0
    texts = ("YES!", "yes, no", "not, yesterday", "")
    assert [parse_verdict(text, last=True) for text in texts] == [1.0, -1.0, None, None]
    assert [parse_verdict(text) for text in texts] == [1.0, 1.0, None, None]


def test_a_judge_that_was_cut_while_it_reasoned_has_no_verdict() -> None:
    """A "no" in the reasons is none; a short reply is cut all the same and begins with
    its verdict.
    """
    for reasons, expected in ((True, -1.0), (False, 1.0)):
        judge = JudgedRelevance("Q {question} P {text}", 4, reasons=reasons)
        plan = judge.evaluate(QUESTION, [Passage("a", "", "a")])
        next(plan)
        with pytest.raises(StopIteration) as stop:
            plan.send([Generation("Yes, because there is no", "length")])
        assert stop.value.value.scores == (expected,)
        assert stop.value.value.failed == int(reasons)


def test_scores_of_the_estimator() -> None:
    """Log-odds become tanh(x / 2), a regression's scores stay as they are; a failure is -1 and
    counted.
    """
    passages = [Passage("p", "T", "one"), Passage("q", "U", "two")]
    results = {"one": Score(2.0), "two": Failed("NaN")}
    for scale, first in (("tanh", math.tanh(1.0)), ("none", 2.0)):
        evaluator = EstimatedRelevance(scale)  # type: ignore[arg-type]
        evaluation, served = play(
            evaluator.evaluate(QUESTION, passages), lambda request: results[request.text]
        )
        assert evaluation.scores == (pytest.approx(first), -1.0)
        assert evaluation.failed == 1
        assert [
            (one.question, one.text, one.title) for one in served if isinstance(one, Estimate)
        ] == [("who?", "one", "T"), ("who?", "two", "U")]


def test_templates_without_the_fields_are_refused() -> None:
    """Each with the fields received."""
    for template, message in (
        ("{question}?", "must have {question} and {text}, may have {title}"),
        (
            "{question} {text} {answer}",
            "and no other field; received '{question} {text} {answer}'",
        ),
    ):
        with pytest.raises(ConfigError, match=message):
            JudgedRelevance(template)


def test_a_scale_must_be_known() -> None:
    """The message has the value received."""
    with pytest.raises(ConfigError, match="must be tanh or none; received 'linear'"):
        EstimatedRelevance("linear")  # type: ignore[arg-type]
