"""Weights of contexts in votes and marginalization: uniform, by the retriever's scores, or by the estimator's log-odds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from winnow.errors import ArtifactError, ConfigError
from winnow.records import Context


@dataclass(frozen=True, slots=True)
class ContextWeighting:
    """Weights the contexts of a prompt by the softmax of their scores times `scale` (RE-RAG eqs. 1 and 5).

    Args:
        by: "none" for uniform weights, "retriever" for the retriever's scores, "estimator" for the estimator's log-odds.
        scale: Factor of the scores. Scores of BM25 and inner products differ by orders of magnitude.

    """

    revision: ClassVar[int] = 1

    by: Literal["none", "retriever", "estimator"] = "none"
    scale: float = 1.0

    def __post_init__(self) -> None:
        """Raise ConfigError if `by` is unknown."""
        if self.by not in ("none", "retriever", "estimator"):
            raise ConfigError(f"weighting.by must be none, retriever or estimator; received {self.by!r}.")

    def apply(self, contexts: Sequence[Context]) -> tuple[Context, ...]:
        """Set the log-weights of the contexts. One that was not retrieved gets the lowest retriever score of the others."""
        if self.by == "none":
            return tuple(contexts)
        if self.by == "retriever":
            lowest = min((c.retriever_score() for c in contexts if c.rank), default=0.0)
            return tuple(replace(c, log_weight=self.scale * (c.retriever_score() if c.rank else lowest)) for c in contexts)
        lacking = next((c for c in contexts if c.log_odds is None), None)
        if lacking:
            raise ArtifactError(
                f"Passage {lacking.passage.passage_id!r} has no log-odds to be weighted by. Run `python -m flows.score` with "
                "the same settings, score.limit large enough for its questions, and score.depth null or large enough."
            )
        return tuple(replace(c, log_weight=self.scale * (c.log_odds or 0.0)) for c in contexts)
