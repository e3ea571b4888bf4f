"""Hybrid retrieval: reciprocal rank fusion of several rankings (Cormack et al., 2009)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.identity.markers import SearchOnly
from winnow.protocols import PassageSource, Retriever, Searcher
from winnow.records import Hit, Question

_MIN_DEPTH = 100
"""Least number of passages of each ranking that are fused, so that the best of a shallow search are
also the first of a deeper one.
"""


@dataclass(frozen=True, slots=True)
class Hybrid:
    """A retriever that scores passages by the sum of 1 / (rrf_k + rank) over its members' rankings.

    Args:
        members: Retrievers to combine, by name.
        rrf_k: Constant that is added to the ranks. A larger value reduces the influence of the top
            ranks.
    """

    revision: ClassVar[int] = 3

    members: Mapping[str, Retriever]
    rrf_k: Annotated[int, Ge(0), SearchOnly] = 60

    def __post_init__(self) -> None:
        if len(self.members) < 2:
            raise ConfigError(
                f"retriever.members needs two or more retrievers; received {sorted(self.members)}."
            )

    def build(self, passages: PassageSource, folder: Path) -> None:
        """Build each member's index in its own subfolder, unless it is already finished."""
        for name, member in self.members.items():
            marker = folder / name / ".done"
            if not marker.exists():
                member.build(passages, folder / name)
                marker.touch()

    def open(self, folder: Path) -> Searcher:
        """Open the index of every member."""
        return _HybridSearcher(
            [member.open(folder / name) for name, member in self.members.items()], self.rrf_k
        )


@dataclass(frozen=True, slots=True)
class _HybridSearcher:
    """The open indexes of all members."""

    searchers: Sequence[Searcher]
    rrf_k: int

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return the best `depth` passages of the fused ranking."""
        fused_depth = max(depth, _MIN_DEPTH)
        rankings = [searcher.search(questions, fused_depth) for searcher in self.searchers]
        return [
            fuse_rankings(question_rankings, self.rrf_k)[:depth]
            for question_rankings in zip(*rankings, strict=True)
        ]


def fuse_rankings(rankings: Sequence[Sequence[Hit]], rrf_k: int = 60) -> list[Hit]:
    """Combine a question's rankings by reciprocal rank fusion, best first, ties by passage id."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking, start=1):
            scores[hit.passage_id] = scores.get(hit.passage_id, 0.0) + 1 / (rrf_k + rank)
    best_first = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [Hit(passage_id, score) for passage_id, score in best_first]
