"""Evaluation of a trained reader on held-out questions, by its answers or by its citations."""

from collections.abc import Callable, Mapping, Sequence

from winnow.contexts.gold import is_relevant
from winnow.metrics.answer import exact_match
from winnow.metrics.base import MeanMetric, evaluate
from winnow.metrics.citation import Citation, CitationF1OfMeans
from winnow.metrics.intervals import Interval, compute_mean_interval
from winnow.protocols import Strategy
from winnow.records import Answer, Context, Decoding, Question
from winnow.steps import Outcome
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.prompt import Prompt
from winnow.training.citing import CitationPrompts, list_citable
from winnow.training.rollouts import build_sample

RankedQuestions = Sequence[tuple[Question, Sequence[Context]]]
"""Questions with their contexts, best-ranked first."""

Evaluation = tuple[
    Strategy, RankedQuestions, Callable[[Sequence[Outcome[Answer]]], Mapping[str, Interval | int]]
]
"""A strategy, its questions with contexts, and the function that computes metrics of outcomes."""


def evaluate_answers(
    questions: RankedQuestions,
    prompt: Prompt,
    decoding: Decoding,
    limit: int | None,
) -> Evaluation:
    """Evaluate exact match and the rate of "unknown" on single passages, with the answer and
    irrelevant ones.
    """
    held_out = [
        (question, contexts)
        for question, contexts in questions
        if question.answerable is not False
        and any(context.has_answer for context in contexts)
        and not all(map(is_relevant, contexts))
    ][:limit]
    with_answer = [
        (question, [next(c for c in contexts if c.has_answer)]) for question, contexts in held_out
    ]
    without_answer = [
        (question, [next(c for c in contexts if not is_relevant(c))])
        for question, contexts in held_out
    ]

    def compute_metrics(outcomes: Sequence[Outcome[Answer]]) -> Mapping[str, Interval | int]:
        answers = [outcome.result for outcome in outcomes]
        unknown = [float(answer.unknown) for answer in answers]
        matches = [
            exact_match(answers[n].text, question.answers)
            for n, (question, _) in enumerate(with_answer)
        ]
        return {
            "questions": len(with_answer),
            "em_gold": compute_mean_interval(matches),
            "unk_gold": compute_mean_interval(unknown[: len(with_answer)]),
            "unk_lacking": compute_mean_interval(unknown[len(with_answer) :]),
        }

    return Concatenation(prompt, decoding), [*with_answer, *without_answer], compute_metrics


def evaluate_citations(
    questions: RankedQuestions,
    mix: CitationPrompts,
    prompt: Prompt,
    decoding: Decoding,
    limit: int | None,
) -> Evaluation:
    """Evaluate the citations (dialect "rage") of replies to questions with a relevant passage."""
    held_out = list_citable(questions, mix.max_words)[:limit]
    measures: list[MeanMetric] = [
        Citation(of, of, of=of) for of in ("precision", "recall", "valid")
    ]

    def compute_metrics(outcomes: Sequence[Outcome[Answer]]) -> Mapping[str, Interval | int]:
        samples = [
            build_sample(*held_out[n], outcome.result, outcome.steps)
            for n, outcome in enumerate(outcomes)
        ]
        return {
            "questions": len(samples),
            **evaluate([CitationF1OfMeans("f1", "f1"), *measures], samples),
        }

    return mix.build_strategy(prompt, decoding), held_out, compute_metrics
