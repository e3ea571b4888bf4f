"""A retriever that reads existing retrieval results from a file in FiD's JSON format."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.errors import InputError
from winnow.formats.fid_json import read_fid
from winnow.identity.markers import InputFile
from winnow.protocols import PassageSource, Searcher
from winnow.records import Hit
from winnow.retrievers.stored import StoredRankings


@dataclass(frozen=True, slots=True)
class Provided:
    """A retriever that returns the rankings of a FiD file instead of searching an index.

    Args:
        path: FiD file, or a folder with one file per split.
    """

    revision: ClassVar[int] = 4
    needs_questions: ClassVar[bool] = True

    path: Annotated[str, InputFile]

    def build(self, passages: PassageSource, folder: Path) -> None:  # noqa: ARG002 (the protocol)
        """Create an empty folder, because the file takes the place of an index."""
        folder.mkdir(parents=True, exist_ok=True)

    def open(self, folder: Path) -> Searcher:  # noqa: ARG002 (the protocol)
        """Read the rankings of the file; raise InputError if two rows have the same question id."""
        rankings: dict[str, list[Hit]] = {}
        texts: dict[str, str] = {}
        for row in read_fid(Path(self.path)):
            question_id = row.question.question_id
            if question_id in rankings:
                raise InputError(
                    f"{self.path} has two rows for the question id {question_id!r} "
                    f"({row.question.text!r}). Remove one, or give the rows ids of their own."
                )
            texts[question_id] = row.question.text
            rankings[question_id] = [
                Hit(passage.passage_id, score) for passage, score in row.contexts
            ]
        return StoredRankings(rankings, self._explain_missing, texts)

    def _explain_missing(self, missing: Sequence[str], num_questions: int) -> str:  # noqa: ARG002 (as StoredRankings calls it)
        return (
            f"{self.path} contains no contexts for question {missing[0]!r} and {len(missing) - 1} "
            "other questions. Use a file that contains all questions, or a retriever that "
            "searches an index."
        )
