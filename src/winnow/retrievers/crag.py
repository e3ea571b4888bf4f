"""A retriever that reads the contexts which CRAG's authors publish (see `winnow.formats.crag`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from winnow.errors import InputError
from winnow.formats.crag import CragRow, normalize_question, read_crag_rows
from winnow.identity.markers import InputFile
from winnow.protocols import PassageSource, Searcher
from winnow.records import Hit, Passage, Question


@dataclass(frozen=True, slots=True)
class CragContexts:
    """A retriever that returns each question's published contexts in file order, without scores.

    Questions are found by their text. Questions of the same text share their contexts, which must
    be equal; the files of PopQA have 13 such texts, about different people of one name.

    Args:
        path: File of pairs or, if `questions` is not "", of knowledge.
        questions: File of the questions of a file of knowledge, one per line.
        missing: What follows if the file lacks a question: "refuse" the whole set, or an "empty"
            ranking, which is counted.
    """

    needs_questions: ClassVar[bool] = True

    path: Annotated[str, InputFile]
    questions: Annotated[str, InputFile] = ""
    missing: Literal["refuse", "empty"] = "refuse"

    def build(self, passages: PassageSource, folder: Path) -> None:  # noqa: ARG002 (the protocol)
        """Create an empty folder, because the file takes the place of an index."""
        folder.mkdir(parents=True, exist_ok=True)

    def open(self, folder: Path) -> Searcher:  # noqa: ARG002 (the protocol)
        """Read the contexts of the file."""
        rows: dict[str, list[CragRow]] = {}
        for row in read_crag_rows(self.path, self.questions):
            rows.setdefault(normalize_question(row.question), []).append(row)
        return _CragSearcher(self.path, rows, self.missing)


@dataclass(frozen=True, slots=True)
class _CragSearcher:
    """The rows of the file at `path`, by the text of the question."""

    path: str
    rows: dict[str, list[CragRow]]
    missing: Literal["refuse", "empty"]

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return the first `depth` contexts of each question; raise InputError if some have none
        and that is not allowed.
        """
        missing_questions = [
            question for question in questions if normalize_question(question.text) not in self.rows
        ]
        if missing_questions and self.missing == "refuse":
            raise InputError(
                f"{self.path} has no row for {len(missing_questions)} of {len(questions)} "
                "questions, such as "
                f"{missing_questions[0].question_id!r} ({missing_questions[0].text!r}); rows are "
                "found by the "
                "question's text. Choose the questions that it is of (for CRAG's file of PopQA "
                "dataset=popqa_long_tail), or let the others have no contexts by "
                "retriever.engine.missing=empty."
            )
        return [
            [Hit(passage.passage_id, None) for passage in self._find(question)[:depth]]
            for question in questions
        ]

    def _find(self, question: Question) -> Sequence[Passage]:
        """Return a question's contexts; raise InputError if several rows have different ones."""
        rows = self.rows.get(normalize_question(question.text), [])
        texts = {tuple(passage.text for passage in row.passages) for row in rows}
        if len(texts) > 1:
            raise InputError(
                f"{self.path} has {len(texts)} rows with different contexts for question "
                f"{question.question_id!r} ({question.text!r}), and rows are found by the "
                "question's text. Leave the question out, or provide contexts with ids as FiD "
                "JSON (retriever=provided)."
            )
        return rows[0].passages if rows else ()
