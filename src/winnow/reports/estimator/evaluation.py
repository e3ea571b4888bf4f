"""The data of an estimator's report, which are computed once for all of its tables and plots.

A score source is a way to score contexts: the scores of the retriever or those of the relevance
estimator.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from winnow.metrics.calibration import Floats
from winnow.records import Context
from winnow.reports.estimator.scores import (
    ScoredQuestion,
    ScoreSource,
    build_score_sources,
    compute_median_score,
    get_exact_matches,
    rank_by_estimator,
    select_answered,
)


@dataclass(frozen=True)
class Evaluation:
    """The questions and settings with which an estimator is evaluated.

    Attributes:
        dev: Development questions, on which thresholds and calibration are fitted.
        test: Test questions, on which thresholds and calibration are evaluated.
        k: Number of contexts in the set of each question.
        dataset: Data set of the paper whose values are shown next to ours, such as "NQ".
        examples: Number of example contexts in table 3.
        seed: Seed of the bootstrap.
    """

    dev: Sequence[ScoredQuestion]
    test: Sequence[ScoredQuestion]
    k: int
    dataset: str = "NQ"
    examples: int = 12
    seed: int = 0

    @cached_property
    def answered_questions(self) -> Sequence[ScoredQuestion]:
        """Return the test questions that have a predicted answer."""
        return select_answered(self.test)

    @cached_property
    def sources(self) -> tuple[ScoreSource, ...]:
        """Return the score sources, the retriever first and the estimator's log-odds last."""
        return build_score_sources(
            self.dev, compute_median_score(self.answered_questions or self.test, self.k)
        )

    def select_top_contexts(self) -> list[Context]:
        """Return the top k contexts of every test question, as ranked by the estimator."""
        return [
            context for question in self.test for context in rank_by_estimator(question)[: self.k]
        ]

    def group_by_share(self) -> Iterator[tuple[str, int, Floats]]:
        """Group answered questions by their share of relevant top-k contexts, per score source.

        The share is divided into fifths, so that fifth 0 covers the shares from 0 to 0.2. Empty
        fifths are skipped.

        Yields:
            Name of the score source, number of the fifth (0 to 4), and EM of each question in it.
        """
        ems = get_exact_matches(self.answered_questions)
        for source in self.sources[:-1]:  # the last has the estimator's scores again
            name = (
                source.name.removesuffix(", 0.5 to 0.9")
                if source.name.startswith("estimator")
                else source.name
            )
            top_contexts = [source.rank(question)[: self.k] for question in self.answered_questions]
            shares = np.array(
                [
                    np.mean([source.is_relevant(context) for context in contexts] or [False])
                    for contexts in top_contexts
                ]
            )
            fifths = np.minimum((shares * 5).astype(int), 4)
            for fifth in range(5):
                if (fifths == fifth).any():
                    yield name, fifth, ems[fifths == fifth]
