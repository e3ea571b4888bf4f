"""Held-out questions of a trained reader, and the metrics of its answers."""

from dataclasses import replace

import pytest

from tests.training.test_citing import CONTEXTS, PROMPT, QUESTION, UNRANKED
from winnow.records import Answer, Context, Decoding, Passage, Question
from winnow.steps import Outcome, Step
from winnow.strategies.cite import Cite
from winnow.strategies.concatenation import Concatenation
from winnow.testing import make_context, make_question
from winnow.training.citing import CitationMix
from winnow.training.evaluation import evaluate_answers, evaluate_citations


def ask(question_id: str) -> Question:
    """A question whose retrieved passages hold an answer."""
    return replace(make_question(question_id=question_id, answers=("Ada",)), answerable=True)


def test_a_trained_reader_is_evaluated_with_and_without_the_answer() -> None:
    """On the first passage of each kind, for as many questions as the limit says that have both
    kinds and an answer.
    """
    both = [
        make_context(1, "the town"),
        make_context(2, "Ada", has_answer=True),
        make_context(3, "Ada too", has_answer=True),
    ]
    questions = [
        (ask("only right"), both[1:]),
        (ask("a"), both),
        (replace(ask("none"), answerable=False), both),
        (ask("b"), both[::-1]),
        (ask("c"), both),
    ]
    strategy, tasks, compute = evaluate_answers(questions, PROMPT, Decoding(), 2)
    assert isinstance(strategy, Concatenation)
    assert [
        (question.question_id, [context.passage.passage_id for context in contexts])
        for question, contexts in tasks
    ] == [("a", ["p2"]), ("b", ["p3"]), ("a", ["p1"]), ("b", ["p1"])]
    known, unknown = Answer("Ada", unknown=False), Answer("", unknown=True)
    metrics = compute(
        [Outcome(n, answer) for n, answer in enumerate((known, unknown, unknown, unknown))]
    )
    values = {
        name: value if isinstance(value, int) else value.mean for name, value in metrics.items()
    }
    assert values == {"questions": 2, "em_gold": 0.5, "unk_gold": 0.5, "unk_lacking": 1.0}


def test_a_trained_reader_is_evaluated_by_its_citations() -> None:
    """On held-out questions with a relevant passage, in the prompts' order."""
    bare = (replace(QUESTION, question_id="bare"), CONTEXTS[:1])
    strategy, cases, compute = evaluate_citations(
        [bare, (QUESTION, [*CONTEXTS, UNRANKED])], CitationMix(), PROMPT, Decoding(), 5
    )
    assert isinstance(strategy, Cite)
    assert [(question.question_id, len(contexts)) for question, contexts in cases] == [("q1", 3)]
    used: tuple[Passage, ...] = tuple(
        context.passage for context in cases[0][1] if isinstance(context, Context)
    )
    steps = (Step(1, "generate", "reader", used),)
    metrics = compute(
        [Outcome("q1", Answer("Austen", False, used=used, reply="Austen [2]."), steps=steps)]
    )
    values = {
        name: value if isinstance(value, int) else value.mean for name, value in metrics.items()
    }
    assert values == {
        "questions": 1,
        "f1": pytest.approx(2 / 3),
        "precision": 1.0,
        "recall": 0.5,
        "valid": 1.0,
    }
