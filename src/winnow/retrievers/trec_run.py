"""A retriever that reads existing retrieval results from a TREC run file, such as those of Pyserini."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from winnow.errors import InputError
from winnow.formats.trec import read_trec_run
from winnow.protocols import PassageSource, Searcher
from winnow.records import Hit, Question


@dataclass(frozen=True, slots=True)
class TrecRun:
    """A retriever that returns the rankings of a run file instead of searching an index.

    The ids in the file are those of the corpus and of the questions.

    Args:
        path: Run file, compressed by gzip or not, or a folder with one file per split.

    """

    revision: ClassVar[int] = 1
    input_files: ClassVar[tuple[str, ...]] = ("path",)

    path: str

    def build(self, passages: PassageSource, folder: Path) -> None:  # noqa: ARG002 (the protocol)
        """Create an empty folder, because the file takes the place of an index."""
        folder.mkdir(parents=True, exist_ok=True)

    def open(self, folder: Path) -> Searcher:  # noqa: ARG002 (the protocol)
        """Read the rankings of the file."""
        return _TrecRunSearcher(self.path, read_trec_run(Path(self.path)))


@dataclass(frozen=True, slots=True)
class _TrecRunSearcher:
    """The rankings of the run file at `path`, by question id."""

    path: str
    rankings: dict[str, list[Hit]]

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return the first `depth` passages of each question's ranking; raise InputError if a question has none."""
        missing = [question.question_id for question in questions if question.question_id not in self.rankings]
        if missing:
            known = next(iter(self.rankings), None)
            raise InputError(
                f"{self.path} has no line for {len(missing)} of {len(questions)} questions, such as {missing[0]!r}; its "
                f"questions have ids like {known!r}. Use a folder with the runs of all splits, or a data set with the "
                "questions of the run."
            )
        return [self.rankings[question.question_id][:depth] for question in questions]
