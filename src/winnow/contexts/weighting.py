"""Context weights in votes and marginalization: uniform, retriever scores or estimator log-odds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from annotated_types import Gt

from winnow.errors import ArtifactError
from winnow.identity.values import check_values
from winnow.records import Context


@dataclass(frozen=True, slots=True)
class ContextWeighting:
    """A weighting of contexts by the softmax of their scores times `scale` (RE-RAG, eqs. 1 and 5).

    Args:
        by: "none" for uniform weights, "retriever" for the retriever's scores, "estimator" for the
            relevance estimator's log-odds.
        scale: Factor by which the scores are multiplied. Scores of BM25 and inner products differ
            by orders of magnitude.
    """

    revision: ClassVar[int] = 1

    by: Literal["none", "retriever", "estimator"] = "none"
    scale: Annotated[float, Gt(0)] = 1.0

    def __post_init__(self) -> None:
        check_values("weighting", self)

    def apply(self, contexts: Sequence[Context]) -> tuple[Context, ...]:
        """Return the contexts with their log-weights.

        A context that was not retrieved has the lowest retriever score of the others.

        Raises:
            ArtifactError: If a context has no score of the required kind.
        """
        if self.by == "none":
            return tuple(contexts)
        if self.by == "retriever":
            lowest = min(
                (context.get_retriever_score() for context in contexts if context.rank),
                default=0.0,
            )
            scores = [
                context.get_retriever_score() if context.rank else lowest for context in contexts
            ]
        else:
            unscored = next((context for context in contexts if context.log_odds is None), None)
            if unscored:
                raise ArtifactError(
                    f"Passage {unscored.passage.passage_id!r} has no log-odds to be weighted by. "
                    "Run `python -m flows.score` with the same settings. Set score.limit to "
                    "include all questions, and score.depth to null or to a sufficient number of "
                    "contexts."
                )
            scores = [context.log_odds or 0.0 for context in contexts]
        return tuple(
            replace(context, log_weight=self.scale * score)
            for context, score in zip(contexts, scores, strict=True)
        )
