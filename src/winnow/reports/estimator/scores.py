"""Score sources: the scores to which thresholds are applied. The retriever's scores are the baseline of every table."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from winnow.metrics.calibration import Calibration, Floats, calibrate, probability
from winnow.metrics.unanswerable import Labels, best_threshold
from winnow.records import Context, Question

PAPER_THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Probabilities that RE-RAG tries as thresholds (table 4)."""


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """A question with its scored contexts.

    Attributes:
        question: Question with its accepted answers.
        contexts: Contexts in the order of the retriever, each with log-odds.
        em: Exact match of the answer, or None if no cell answered the question.

    """

    question: Question
    contexts: Sequence[Context]
    em: float | None = None


@dataclass(frozen=True, slots=True)
class ScoreSource:
    """A way to score contexts, with its ranking and its candidate thresholds.

    Attributes:
        name: Name of the source in the tables.
        score: Function that scores a context, on the scale of the thresholds.
        ranking: Function that ranks the contexts of a question, best first.
        candidates: Function that returns the thresholds to try, given the best scores of the development questions.
        format: Function that formats a threshold.
        is_relevant: Function that tells whether a context counts as relevant in figures 3 and 4.

    """

    name: str
    score: Callable[[Context], float]
    ranking: Callable[[ScoredQuestion], list[Context]]
    candidates: Callable[[Floats], Sequence[float]]
    format: Callable[[float], str]
    is_relevant: Callable[[Context], bool]

    def sets(self, questions: Sequence[ScoredQuestion], k: int) -> tuple[Floats, Labels]:
        """Compute the best score among each question's top k contexts, and whether any of them contains an answer."""
        sets = [self.ranking(question)[:k] for question in questions]
        best_scores = np.array([max(self.score(c) for c in contexts) for contexts in sets], dtype=np.float64)
        return best_scores, np.array([any(c.has_answer for c in contexts) for contexts in sets])

    def threshold(self, dev: Sequence[ScoredQuestion], k: int) -> float:
        """Choose the candidate threshold with the best F1 on the development questions."""
        best_scores, answerable = self.sets(dev, k)
        return best_threshold(best_scores, answerable, self.candidates(best_scores))


def log_odds(context: Context) -> float:
    """Return the log-odds of a scored context."""
    assert context.log_odds is not None
    return context.log_odds


def by_retriever(question: ScoredQuestion) -> list[Context]:
    """Return the contexts in the order of the retriever."""
    return list(question.contexts)


def by_estimator(question: ScoredQuestion) -> list[Context]:
    """Return the contexts in the order of their log-odds, best first."""
    return sorted(question.contexts, key=lambda context: -log_odds(context))


def fit_calibration(dev: Sequence[ScoredQuestion]) -> Calibration:
    """Fit Platt scaling on every scored context of the development questions."""
    contexts = [context for question in dev for context in question.contexts]
    return calibrate(np.array([log_odds(c) for c in contexts]), np.array([c.has_answer for c in contexts]))


def score_sources(dev: Sequence[ScoredQuestion], median: float) -> tuple[ScoreSource, ScoreSource, ScoreSource, ScoreSource]:
    """Build the score sources: the retriever, and the estimator with three kinds of thresholds.

    The thresholds of the estimator are the paper's probabilities, the same probabilities after calibration, and quantiles of
    the log-odds. RE-RAG's loss only distinguishes the contexts of one question, so that it does not determine the offset
    that all log-odds share. If the offset is far from 0, no probability from 0.5 to 0.9 is a useful threshold without
    calibration.

    Args:
        dev: Questions on which the calibration is fitted.
        median: Retriever score above which a context counts as relevant.

    """
    calibration = fit_calibration(dev)

    def calibrated(context: Context) -> float:
        return float(calibration(np.array(log_odds(context))))

    return (
        ScoreSource(
            "retriever",
            Context.retriever_score,
            by_retriever,
            _quantiles,
            _format_number,
            lambda c: c.retriever_score() > median,
        ),
        ScoreSource(
            "estimator, 0.5 to 0.9", log_odds, by_estimator, _paper_log_odds, _format_probability, lambda c: log_odds(c) > 0
        ),
        ScoreSource(
            "estimator calibrated on dev, 0.5 to 0.9",
            calibrated,
            by_estimator,
            _paper_log_odds,
            _format_probability,
            lambda c: calibrated(c) > 0,
        ),
        ScoreSource("estimator, any log-odds", log_odds, by_estimator, _quantiles, _format_number, lambda c: log_odds(c) > 0),
    )


def median_score(questions: Sequence[ScoredQuestion], k: int) -> float:
    """Compute the median retriever score of the top k contexts."""
    return float(np.median([c.retriever_score() for question in questions for c in question.contexts[:k]]))


def probabilities(contexts: Sequence[Context], calibration: Calibration) -> Floats:
    """Compute P("true") of contexts from their calibrated log-odds."""
    calibrated: NDArray[np.float64] = calibration(np.array([log_odds(c) for c in contexts]))
    return probability(calibrated.astype(np.float32)).astype(np.float64)


def exact_matches(questions: Sequence[ScoredQuestion]) -> Floats:
    """Return the EM of each answered question."""
    return np.array([question.em or 0.0 for question in questions])


def answered(questions: Sequence[ScoredQuestion]) -> list[ScoredQuestion]:
    """Return the questions that a cell answered."""
    return [question for question in questions if question.em is not None]


def _paper_log_odds(best_scores: Floats) -> Sequence[float]:  # noqa: ARG001 (a ScoreSource's signature)
    return [math.log(p / (1 - p)) for p in PAPER_THRESHOLDS]


def _quantiles(best_scores: Floats) -> Sequence[float]:
    return [float(quantile) for quantile in np.quantile(best_scores, np.linspace(0.05, 0.95, 19))]


def _format_number(threshold: float) -> str:
    return f"{threshold:.3g}"


def _format_probability(threshold: float) -> str:
    return f"{1 / (1 + math.exp(-threshold)):.3g}"
