"""Hybrid retrieval: several rankings combined by reciprocal rank fusion (Cormack et al., 2009)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from winnow.errors import ConfigError
from winnow.protocols import PassageSource, Retriever, Searcher
from winnow.records import Hit, Question


@dataclass(frozen=True, slots=True)
class Hybrid:
    """Scores a passage by the sum over rankings of 1 / (constant + rank)."""

    members: Mapping[str, Retriever]
    constant: int = 60

    def __post_init__(self) -> None:
        """Refuse fewer than two members."""
        if len(self.members) < 2:
            raise ConfigError(f"retriever.members needs two or more retrievers; received {sorted(self.members)}.")

    def build(self, passages: PassageSource, folder: Path) -> None:
        """Build each member in its own folder; finished members are skipped."""
        for name, member in self.members.items():
            done = folder / name / ".done"
            if not done.exists():
                member.build(passages, folder / name)
                done.touch()

    def open(self, folder: Path) -> Searcher:
        """Open every member."""
        return _HybridSearcher([m.open(folder / name) for name, m in self.members.items()], self.constant)


@dataclass(frozen=True, slots=True)
class _HybridSearcher:
    searchers: Sequence[Searcher]
    constant: int

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return the best `depth` passages of the fused ranking."""
        rankings = [searcher.search(questions, depth) for searcher in self.searchers]
        return [fuse(list(rows), self.constant)[:depth] for rows in zip(*rankings, strict=True)]


def fuse(rankings: Sequence[Sequence[Hit]], constant: int = 60) -> list[Hit]:
    """Return the passages of all rankings by reciprocal rank fusion; ties go to the lower passage id."""
    totals: dict[str, float] = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking, start=1):
            totals[hit.passage_id] = totals.get(hit.passage_id, 0.0) + 1 / (constant + rank)
    return [Hit(passage_id, score) for passage_id, score in sorted(totals.items(), key=lambda item: (-item[1], item[0]))]
