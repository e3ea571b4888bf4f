"""The questions of an evaluation with their score sources, which are computed once for all tables and plots."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from winnow.metrics.calibration import Floats
from winnow.records import Context
from winnow.reports.estimator.scores import (
    ScoredQuestion,
    ScoreSource,
    answered,
    by_estimator,
    exact_matches,
    median_score,
    score_sources,
)


@dataclass(frozen=True)
class Evaluation:
    """The questions and settings with which an estimator is evaluated.

    Attributes:
        dev: Questions on which thresholds and calibration are fitted.
        test: Questions on which they are evaluated.
        k: Number of contexts per set.
        dataset: Data set of the paper whose values are printed beside ours.
        examples: Number of contexts that table 3 shows.
        seed: Seed of the bootstrap.

    """

    dev: Sequence[ScoredQuestion]
    test: Sequence[ScoredQuestion]
    k: int
    dataset: str = "NQ"
    examples: int = 12
    seed: int = 0

    @cached_property
    def answered(self) -> Sequence[ScoredQuestion]:
        """Return the test questions that a cell answered."""
        return answered(self.test)

    @cached_property
    def sources(self) -> tuple[ScoreSource, ...]:
        """Return the score sources: the retriever first, the estimator's log-odds last."""
        return score_sources(self.dev, median_score(self.answered or self.test, self.k))

    def top_contexts(self) -> list[Context]:
        """Return the estimator's top k contexts of every test question."""
        return [context for question in self.test for context in by_estimator(question)[: self.k]]

    def by_share(self) -> Iterator[tuple[str, int, Floats]]:
        """Group the answered questions by the share of relevant contexts among their top k, for each score source.

        Yields:
            Name of the score source, fifth of the share (0 to 4), and EMs of the questions in it; empty fifths are skipped.

        """
        ems = exact_matches(self.answered)
        names = ("retriever", "estimator", "estimator calibrated on dev")
        for name, source in zip(names, self.sources, strict=False):
            top_contexts = [source.ranking(question)[: self.k] for question in self.answered]
            shares = np.array([np.mean([source.is_relevant(c) for c in contexts]) for contexts in top_contexts])
            fifths = np.minimum((shares * 5).astype(int), 4)
            for fifth in range(5):
                if (fifths == fifth).any():
                    yield name, fifth, ems[fifths == fifth]
