"""Rankings that are read from a file instead of an index."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from winnow.errors import InputError
from winnow.records import Hit, Question
from winnow.text.normalization import normalize


@dataclass(frozen=True, slots=True)
class StoredRankings:
    """A searcher over the rankings of a file.

    Attributes:
        rankings: Hits of each question by question id, best first.
        explain_missing: Function that builds the error message for questions that the file lacks,
            from their ids and the number of all questions.
        texts: Text of each question by question id, if the file has it.
    """

    rankings: Mapping[str, Sequence[Hit]]
    explain_missing: Callable[[Sequence[str], int], str]
    texts: Mapping[str, str] = field(default_factory=dict)

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return the first `depth` passages of each question's ranking; raise InputError if a
        question has none, or if its ranking is that of another question.
        """
        missing_ids = [
            question.question_id
            for question in questions
            if question.question_id not in self.rankings
        ]
        if missing_ids:
            raise InputError(self.explain_missing(missing_ids, len(questions)))
        for question in questions if self.texts else ():
            text = self.texts.get(question.question_id, question.text)
            if text != question.text and normalize(text) != normalize(question.text):
                raise InputError(
                    f"The question id {question.question_id!r} is {question.text!r} in the data "
                    f"set and {text!r} in the file of the rankings. Ids that count rows differ "
                    "where one file begins with 0 or lacks a row; take both from one file."
                )
        if not self.texts:
            _check_numbers(self.rankings.keys(), {question.question_id for question in questions})
        return [list(self.rankings[question.question_id][:depth]) for question in questions]


def _check_numbers(ranked: Collection[str], asked: Collection[str]) -> None:
    """Raise InputError if ranking ids count from 0 and the ids of the fewer questions from 1."""
    count_from_0, count_from_1 = (
        set(ids) == set(map(str, range(first, len(ids) + first)))
        for ids, first in ((ranked, 0), (asked, 1))
    )
    if 1 < len(asked) < len(ranked) - 1 and count_from_0 and count_from_1:
        raise InputError(
            f"The ids of the rankings count their {len(ranked)} questions from 0, and those of "
            f"the {len(asked)} questions from 1, so that each would have the ranking of the next "
            "one. Number both alike."
        )
