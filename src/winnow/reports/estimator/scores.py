"""Score sources, which are the ways to score contexts that an estimator's report compares.

A threshold on the scores decides whether a question can be answered from its top k contexts, which
are called its set. The scores of the retriever are the baseline of every table.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from winnow.metrics.calibration import Calibration, Floats, compute_probability, fit_platt_scaling
from winnow.metrics.unanswerable import Labels, select_threshold
from winnow.records import Context, Question

PAPER_THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Probabilities, or cosines of a retriever, that RE-RAG tries as thresholds (table 4)."""
_MAX_COSINE = 1.001
"""Largest score of a retriever that computes cosines, with its rounding."""
_MIN_BEST_COSINE = 0.3
"""Minimum best cosine of many contexts. Reciprocal ranks, as in hybrid retrieval, are smaller."""


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """A question with its scored contexts.

    Attributes:
        question: Question with its accepted answers.
        contexts: Contexts in the order of the retriever, each with log-odds.
        em: Exact match of the predicted answer, or None if the question has no prediction.
    """

    question: Question
    contexts: Sequence[Context]
    em: float | None = None


@dataclass(frozen=True, slots=True)
class ScoreSource:
    """A way to score and rank contexts, with the thresholds to try on the scores.

    Attributes:
        name: Name of the source in the tables.
        score: Function that scores a context, on the scale of the thresholds.
        rank: Function that ranks the contexts of a question, best first.
        propose_thresholds: Function that returns the thresholds to try, given the best score of
            each development question.
        format_threshold: Function that formats a threshold as text.
        is_relevant: Function that returns whether a context counts as relevant in figures 3 and 4.
    """

    name: str
    score: Callable[[Context], float]
    rank: Callable[[ScoredQuestion], list[Context]]
    propose_thresholds: Callable[[Floats], Sequence[float]]
    format_threshold: Callable[[float], str]
    is_relevant: Callable[[Context], bool]

    def score_sets(self, questions: Sequence[ScoredQuestion], k: int) -> tuple[Floats, Labels]:
        """Score the top k contexts of each question as a set.

        Returns:
            best_scores: (questions,) Highest score in each set, -inf in an empty one.
            answerable: (questions,) Whether any context of the set contains an answer.
        """
        sets = [self.rank(question)[:k] for question in questions]
        best_scores = np.array(
            [max(map(self.score, contexts), default=-math.inf) for contexts in sets],
            dtype=np.float64,
        )
        answerable = np.array(
            [any(context.has_answer for context in contexts) for contexts in sets]
        )
        return best_scores, answerable

    def choose_threshold(self, dev: Sequence[ScoredQuestion], k: int) -> float:
        """Choose the candidate threshold with the best F1 on the sets of development questions."""
        best_scores, answerable = self.score_sets(dev, k)
        proposals = self.propose_thresholds(best_scores[np.isfinite(best_scores)])
        return select_threshold(best_scores, answerable, proposals)


def get_log_odds(context: Context) -> float:
    """Return the log-odds of a scored context."""
    assert context.log_odds is not None
    return context.log_odds


def rank_by_retriever(question: ScoredQuestion) -> list[Context]:
    """Return the contexts of a question in the order of the retriever."""
    return list(question.contexts)


def rank_by_estimator(question: ScoredQuestion) -> list[Context]:
    """Return the contexts of a question sorted by their log-odds, best first."""
    return sorted(question.contexts, key=lambda context: -get_log_odds(context))


def fit_calibration(dev: Sequence[ScoredQuestion]) -> Calibration:
    """Fit Platt scaling on every scored context of the development questions."""
    contexts = [context for question in dev for context in question.contexts]
    labels = np.array([context.has_answer for context in contexts])
    return fit_platt_scaling(np.array([get_log_odds(context) for context in contexts]), labels)


def build_score_sources(dev: Sequence[ScoredQuestion], median: float) -> tuple[ScoreSource, ...]:
    """Build the score sources: the retriever, and the estimator with three kinds of thresholds.

    A retriever whose scores are cosines is a second source, with the thresholds of the paper.

    The thresholds of the estimator are the probabilities of the paper, the same probabilities after
    calibration, and quantiles of the log-odds. The loss of RE-RAG only compares the contexts of one
    question, so it does not determine the offset that all log-odds share. If the offset is far from
    0, the probabilities from 0.5 to 0.9 are useful thresholds only after calibration.

    Args:
        dev: Questions on which the calibration is fitted.
        median: Median score of the retriever. A context counts as relevant for the retriever if its
            score is higher.
    """
    calibration = fit_calibration(dev)

    def calibrate_context(context: Context) -> float:
        return float(calibration(np.array(get_log_odds(context))))

    cosine = ScoreSource(
        "retriever, 0.5 to 0.9",
        Context.get_retriever_score,
        rank_by_retriever,
        lambda _: PAPER_THRESHOLDS,
        _format_number,
        lambda context: context.get_retriever_score() > PAPER_THRESHOLDS[0],
    )
    scores = [context.get_retriever_score() for question in dev for context in question.contexts]
    is_cosine = (
        bool(scores) and max(map(abs, scores)) <= _MAX_COSINE and max(scores) >= _MIN_BEST_COSINE
    )
    return (
        ScoreSource(
            "retriever",
            Context.get_retriever_score,
            rank_by_retriever,
            _quantile_thresholds,
            _format_number,
            lambda context: context.get_retriever_score() > median,
        ),
        *([cosine] if is_cosine else []),
        ScoreSource(
            "estimator, 0.5 to 0.9",
            get_log_odds,
            rank_by_estimator,
            _paper_thresholds,
            _format_probability,
            lambda context: get_log_odds(context) > 0,
        ),
        ScoreSource(
            "estimator calibrated on dev, 0.5 to 0.9",
            calibrate_context,
            rank_by_estimator,
            _paper_thresholds,
            _format_probability,
            lambda context: calibrate_context(context) > 0,
        ),
        ScoreSource(
            "estimator, any log-odds",
            get_log_odds,
            rank_by_estimator,
            _quantile_thresholds,
            _format_number,
            lambda context: get_log_odds(context) > 0,
        ),
    )


def compute_median_score(questions: Sequence[ScoredQuestion], k: int) -> float:
    """Compute the median retriever score over the retriever's top k contexts of all questions."""
    return float(
        np.median(
            [
                context.get_retriever_score()
                for question in questions
                for context in question.contexts[:k]
            ]
        )
    )


def compute_probabilities(contexts: Sequence[Context], calibration: Calibration) -> Floats:
    """Compute P("true") of contexts from their calibrated log-odds."""
    calibrated_log_odds: NDArray[np.float64] = calibration(
        np.array([get_log_odds(context) for context in contexts])
    )
    return compute_probability(calibrated_log_odds.astype(np.float32)).astype(np.float64)


def get_exact_matches(questions: Sequence[ScoredQuestion]) -> Floats:
    """Return the EM of each question. All questions must have a predicted answer."""
    ems = [question.em for question in questions]
    assert None not in ems
    return np.array(ems, dtype=np.float64)


def select_answered(questions: Sequence[ScoredQuestion]) -> list[ScoredQuestion]:
    """Return the questions that have a predicted answer."""
    return [question for question in questions if question.em is not None]


def _paper_thresholds(
    best_scores: Floats,  # noqa: ARG001 (signature of ScoreSource.propose_thresholds)
) -> Sequence[float]:
    """Return the probabilities that RE-RAG tries as thresholds, as log-odds."""
    return [math.log(p / (1 - p)) for p in PAPER_THRESHOLDS]


def _quantile_thresholds(best_scores: Floats) -> Sequence[float]:
    """Return the quantiles of the scores in steps of 5 %."""
    return [float(quantile) for quantile in np.quantile(best_scores, np.linspace(0.05, 0.95, 19))]


def _format_number(threshold: float) -> str:
    return f"{threshold:.3g}"


def _format_probability(threshold: float) -> str:
    """Format log-odds as a probability."""
    return f"{1 / (1 + math.exp(-threshold)):.3g}"
