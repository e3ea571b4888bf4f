"""A retriever that reads existing retrieval results from a TREC run file, such as Pyserini's."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.formats.trec import read_trec_run
from winnow.identity.markers import InputFile
from winnow.protocols import PassageSource, Searcher
from winnow.retrievers.stored import StoredRankings


@dataclass(frozen=True, slots=True)
class TrecRun:
    """A retriever that returns the rankings of a run file instead of searching an index.

    The ids in the file are the ids of the corpus and the questions.

    Args:
        path: Run file, compressed by gzip or not, or a folder with one file per split.
    """

    revision: ClassVar[int] = 3
    needs_questions: ClassVar[bool] = True

    path: Annotated[str, InputFile]

    def build(self, passages: PassageSource, folder: Path) -> None:  # noqa: ARG002 (the protocol)
        """Create an empty folder, because the file takes the place of an index."""
        folder.mkdir(parents=True, exist_ok=True)

    def open(self, folder: Path) -> Searcher:  # noqa: ARG002 (the protocol)
        """Read the rankings of the file."""
        rankings = read_trec_run(Path(self.path))
        example_id = next(iter(rankings), None)

        def explain_missing(missing: Sequence[str], num_questions: int) -> str:
            return (
                f"{self.path} has no line for {len(missing)} of {num_questions} questions, such as "
                f"{missing[0]!r}; its questions have ids like {example_id!r}. Use a folder with "
                "the "
                "runs of all splits, or a data set with the questions of the run."
            )

        return StoredRankings(rankings, explain_missing)
