"""Score sources: the scores on which thresholds are chosen. The retriever's are the baseline of every table."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from winnow.metrics.calibration import Calibration, Floats, calibrate, probability
from winnow.metrics.unanswerable import Labels, best_threshold
from winnow.records import Context, Question

PAPER_THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
"""The probabilities that RE-RAG tries (table 4)."""


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """A question with its contexts by the retriever's rank, each with log-odds; EM where a cell answered it."""

    question: Question
    contexts: Sequence[Context]
    em: float | None = None


@dataclass(frozen=True, slots=True)
class ScoreSource:
    """A score of contexts, the ranking that goes with it, and the thresholds that are tried on it.

    Attributes:
        name: heads its rows.
        score: of a context, on the scale of the thresholds.
        ranking: a question's contexts, best first.
        candidates: the thresholds to try, given the best scores of the development questions.
        format: of a threshold.
        is_relevant: whether a context counts as relevant in figures 3 and 4.

    """

    name: str
    score: Callable[[Context], float]
    ranking: Callable[[ScoredQuestion], list[Context]]
    candidates: Callable[[Floats], Sequence[float]]
    format: Callable[[float], str]
    is_relevant: Callable[[Context], bool]

    def sets(self, questions: Sequence[ScoredQuestion], k: int) -> tuple[Floats, Labels]:
        """Return the best score of each question's top k, and whether any of them has the answer."""
        tops = [self.ranking(question)[:k] for question in questions]
        best = np.array([max(self.score(c) for c in top) for top in tops], dtype=np.float64)
        return best, np.array([any(c.has_answer for c in top) for top in tops])

    def threshold(self, dev: Sequence[ScoredQuestion], k: int) -> float:
        """Return the candidate with the best F1 on the development questions."""
        best, answerable = self.sets(dev, k)
        return best_threshold(best, answerable, self.candidates(best))


def log_odds(context: Context) -> float:
    """Return a scored context's log-odds."""
    assert context.log_odds is not None
    return context.log_odds


def by_retriever(question: ScoredQuestion) -> list[Context]:
    """Return the contexts as retrieved."""
    return list(question.contexts)


def by_estimator(question: ScoredQuestion) -> list[Context]:
    """Return the contexts by log-odds, best first."""
    return sorted(question.contexts, key=lambda context: -log_odds(context))


def fit_calibration(dev: Sequence[ScoredQuestion]) -> Calibration:
    """Fit Platt scaling on every scored context of the development questions."""
    contexts = [context for question in dev for context in question.contexts]
    return calibrate(np.array([log_odds(c) for c in contexts]), np.array([c.has_answer for c in contexts]))


def score_sources(dev: Sequence[ScoredQuestion], middle: float) -> tuple[ScoreSource, ScoreSource, ScoreSource, ScoreSource]:
    """Return retriever, estimator at the paper's probabilities, the same calibrated, and estimator at any log-odds.

    RE-RAG's loss distinguishes contexts of one question, and leaves the offset that all log-odds share undetermined. Where
    that is far from 0 no probability from 0.5 to 0.9 is a useful threshold; calibrated ones and quantiles are.

    Args:
        dev: on which calibration and thresholds are fitted.
        middle: the retriever's score above which a context counts as relevant.

    """
    calibration = fit_calibration(dev)

    def calibrated(context: Context) -> float:
        return float(calibration(np.array(log_odds(context))))

    return (
        ScoreSource("retriever", lambda c: c.score, by_retriever, _quantiles, _number, lambda c: c.score > middle),
        ScoreSource("estimator, 0.5 to 0.9", log_odds, by_estimator, _paper_log_odds, _as_p, lambda c: log_odds(c) > 0),
        ScoreSource(
            "estimator calibrated on dev, 0.5 to 0.9",
            calibrated,
            by_estimator,
            _paper_log_odds,
            _as_p,
            lambda c: calibrated(c) > 0,
        ),
        ScoreSource("estimator, any log-odds", log_odds, by_estimator, _quantiles, _number, lambda c: log_odds(c) > 0),
    )


def median_score(questions: Sequence[ScoredQuestion], k: int) -> float:
    """Return the median retriever score of the top k contexts."""
    return float(np.median([c.score for question in questions for c in question.contexts[:k]]))


def probabilities(contexts: Sequence[Context], calibration: Calibration) -> Floats:
    """Return P("true") of contexts."""
    scaled: NDArray[np.float64] = calibration(np.array([log_odds(c) for c in contexts]))
    return probability(scaled.astype(np.float32)).astype(np.float64)


def exact_matches(questions: Sequence[ScoredQuestion]) -> Floats:
    """Return the EM of answered questions."""
    return np.array([question.em or 0.0 for question in questions])


def answered(questions: Sequence[ScoredQuestion]) -> list[ScoredQuestion]:
    """Return the questions that a cell answered."""
    return [question for question in questions if question.em is not None]


def _paper_log_odds(best: Floats) -> Sequence[float]:  # noqa: ARG001 (a ScoreSource's signature)
    return [math.log(p / (1 - p)) for p in PAPER_THRESHOLDS]


def _quantiles(best: Floats) -> Sequence[float]:
    return [float(v) for v in np.quantile(best, np.linspace(0.05, 0.95, 19))]


def _number(threshold: float) -> str:
    return f"{threshold:.3g}"


def _as_p(threshold: float) -> str:
    return f"{1 / (1 + math.exp(-threshold)):.3g}"
