"""Rankings that are read from a file instead of an index."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from winnow.errors import InputError
from winnow.records import Hit, Question


@dataclass(frozen=True, slots=True)
class StoredRankings:
    """A searcher over the rankings of a file.

    Attributes:
        rankings: Hits of each question by question id, best first.
        explain_missing: Function that builds the error message for questions that the file lacks,
            from their ids and the number of all questions.

    """

    rankings: Mapping[str, Sequence[Hit]]
    explain_missing: Callable[[Sequence[str], int], str]

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return the first `depth` passages of each question's ranking; raise InputError if a
        question has none.
        """
        missing = [
            question.question_id
            for question in questions
            if question.question_id not in self.rankings
        ]
        if missing:
            raise InputError(self.explain_missing(missing, len(questions)))
        return [list(self.rankings[question.question_id][:depth]) for question in questions]
