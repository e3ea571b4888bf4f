"""Sources of scores by hand: sets, thresholds, and what counts as a cosine."""

from dataclasses import replace

import numpy as np
import pytest

from winnow.reports.estimator.scores import (
    PAPER_THRESHOLDS,
    ScoredQuestion,
    build_score_sources,
    compute_median_score,
    compute_probabilities,
    fit_calibration,
    get_exact_matches,
    rank_by_estimator,
    rank_by_retriever,
    select_answered,
)
from winnow.testing import make_context, make_question


def scored(
    number: int,
    odds: list[float],
    answers: list[bool],
    scores: list[float],
    em: float | None = None,
) -> ScoredQuestion:
    """A question whose contexts have these log-odds, answers and retriever's scores, in the
    retriever's order.
    """
    contexts = [
        replace(make_context(n, f"text {n}", has_answer=flag), log_odds=value, score=score)
        for n, (value, flag, score) in enumerate(zip(odds, answers, scores, strict=True), 1)
    ]
    return ScoredQuestion(make_question(question_id=f"q{number}"), contexts, em)


DEV = [
    scored(1, [-2.0, 2.0, 1.0], [False, True, True], [9.0, 8.0, 7.0], 1.0),
    scored(2, [-3.0, -2.0, 0.5], [False, False, False], [5.0, 4.0, 3.0]),
    scored(3, [3.0, -1.0, -0.5], [True, False, False], [9.5, 2.0, 1.0], 0.0),
]


def test_a_set_has_the_best_score_and_any_answer_of_its_contexts() -> None:
    """Of the first two by the retriever, and of the first by the estimator."""
    retriever, *_, estimator = build_score_sources(DEV, 5.0)
    best, answerable = retriever.score_sets(DEV, 2)
    assert best.tolist() == [9.0, 5.0, 9.5]
    assert answerable.tolist() == [True, False, True]
    best, answerable = estimator.score_sets(DEV, 1)
    assert best.tolist() == [2.0, 0.5, 3.0]
    assert answerable.tolist() == [True, False, True]
    assert [context.rank for context in rank_by_estimator(DEV[0])] == [2, 3, 1]
    assert [context.rank for context in rank_by_retriever(DEV[0])] == [1, 2, 3]
    assert retriever.choose_threshold(DEV, 2) > 5.0, "it divides 5 from 9 and 9.5"
    assert [retriever.is_relevant(context) for context in DEV[0].contexts] == [True, True, True]
    assert compute_median_score(DEV, 2) == 6.5


def test_thresholds_of_the_paper_are_log_odds_and_read_as_probabilities() -> None:
    """Those of the estimator, calibrated or not; without cosines the retriever has no
    such source.
    """
    sources = {source.name: source for source in build_score_sources(DEV, 5.0)}
    assert list(sources) == [
        "retriever", "estimator, 0.5 to 0.9", "estimator calibrated on dev, 0.5 to 0.9",
        "estimator, any log-odds",
    ]  # fmt: skip
    source = sources["estimator, 0.5 to 0.9"]
    thresholds = source.propose_thresholds(np.zeros(3))
    assert [source.format_threshold(threshold) for threshold in thresholds] == [
        "0.5",
        "0.6",
        "0.7",
        "0.8",
        "0.9",
    ]
    assert thresholds[0] == 0.0


@pytest.mark.parametrize(
    ("scores", "is_cosine"),
    [([0.9, 0.4, -0.1], True), ([1.2, 0.4, 0.1], False), ([0.032, 0.031, 0.016], False)],
)
def test_a_retriever_of_cosines_has_the_thresholds_of_the_paper(
    scores: list[float], is_cosine: bool
) -> None:
    """Scores above 1 are none, and neither are reciprocal ranks, which are small."""
    dev = [scored(n, [2.0 - n, -1.0, 0.5], [n < 2, False, True], scores) for n in range(3)]
    sources = {source.name: source for source in build_score_sources(dev, 0.5)}
    assert ("retriever, 0.5 to 0.9" in sources) == is_cosine
    if is_cosine:
        assert sources["retriever, 0.5 to 0.9"].propose_thresholds(np.zeros(3)) == PAPER_THRESHOLDS
        assert [
            sources["retriever, 0.5 to 0.9"].is_relevant(context) for context in dev[0].contexts
        ] == [True, False, False]


def test_probabilities_are_calibrated_and_answered_questions_are_selected() -> None:
    """They grow with the log-odds; only questions with a prediction have an exact match."""
    probabilities = compute_probabilities(DEV[0].contexts, fit_calibration(DEV))
    assert probabilities[0] < probabilities[2] < probabilities[1]
    assert 0 <= probabilities.min() < probabilities.max() <= 1
    answered = select_answered(DEV)
    assert [question.question.question_id for question in answered] == ["q1", "q3"]
    assert get_exact_matches(answered).tolist() == [1.0, 0.0]


def test_a_question_without_contexts_is_one_without_an_answer() -> None:
    """Retrieval allows it; its set has no best score."""
    empty = scored(4, [], [], [])
    retriever, *_ = build_score_sources(DEV, 5.0)
    best, answerable = retriever.score_sets([*DEV, empty], 2)
    assert best.tolist() == [9.0, 5.0, 9.5, -np.inf]
    assert answerable.tolist() == [True, False, True, False]
    assert retriever.choose_threshold([*DEV, empty], 2) > 5.0


def test_thresholds_are_of_the_sets_that_have_scores() -> None:
    """A quantile between a score and -inf is no number."""
    empty = scored(4, [], [], [])
    retriever, *_ = build_score_sources(DEV, 5.0)
    alone = retriever.choose_threshold(DEV, 2)
    assert retriever.choose_threshold([*DEV, empty, empty], 2) == alone
