"""Existing retrieval results, read from a FiD JSON file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from winnow.errors import InputError
from winnow.formats.fid_json import read_fid
from winnow.protocols import PassageSource, Searcher
from winnow.records import Hit, Question


@dataclass(frozen=True, slots=True)
class Provided:
    """Returns the rankings of a FiD file instead of searching an index."""

    revision: ClassVar[int] = 2
    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str

    def build(self, passages: PassageSource, folder: Path) -> None:  # noqa: ARG002 (the protocol)
        """Create an empty folder, because the file takes the place of an index."""
        folder.mkdir(parents=True, exist_ok=True)

    def open(self, folder: Path) -> Searcher:  # noqa: ARG002 (the protocol)
        """Read the rankings of the file."""
        rankings = {
            row.question.question_id: [Hit(passage.passage_id, score) for passage, score in row.contexts]
            for row in read_fid(Path(self.path))
        }
        return _ProvidedSearcher(self.path, rankings)


@dataclass(frozen=True, slots=True)
class _ProvidedSearcher:
    path: str
    rankings: dict[str, list[Hit]]

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return the first `depth` passages of each question's ranking."""
        missing = [q.question_id for q in questions if q.question_id not in self.rankings]
        if missing:
            raise InputError(f"{self.path} has no contexts for question {missing[0]!r} (and {len(missing) - 1} more).")
        return [self.rankings[q.question_id][:depth] for q in questions]
