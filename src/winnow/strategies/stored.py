"""Answers of another system, read from a file to be measured and compared like a sweep's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from winnow.errors import InputError
from winnow.formats.columns import Column, ColumnRow, read_columns
from winnow.identity.markers import InputFile
from winnow.records import Answer, Context, Decoding, Question
from winnow.requests import Plan
from winnow.strategies.prompt import Prompt
from winnow.strategies.unknown import is_unknown
from winnow.text.final import extract_final_text


@dataclass(frozen=True)
class StoredAnswers:
    """A strategy that reads answers from a JSON lines file on first use and makes no requests.

    The contexts of a cell are placed as for any other strategy, but whether the other system had
    the same is not known.

    Args:
        prompt: Templates of the prompt, which are not used.
        decoding: Generation settings, which are not used.
        path: File with one line per question.
        id: Name of the column with the id of the question.
        answer: Name of the column with the answer, without the reasoning of a model; an empty one
            is "unknown".
        reply: Name of the column with the whole reply, which metrics of citations read, or "" if it
            is the answer.
    """

    prompt: Prompt
    decoding: Decoding
    path: Annotated[str, InputFile]
    id: Annotated[str, Column()] = "question_id"
    answer: Annotated[str, Column()] = "answer"
    reply: Annotated[str, Column(optional=True)] = ""

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:  # noqa: ARG002 (as every strategy)
        """Return the stored answer; raise InputError if the file has none for the question."""
        yield from ()
        if question.question_id not in self._replies:
            raise InputError(
                f"{self.path} has no answer to question {question.question_id!r} "
                f"({question.text!r}); it has {len(self._replies)} answers. Add the line, or "
                "restrict the sweep to the questions of the file."
            )
        answer, reply = self._replies[question.question_id]
        return Answer(answer, is_unknown(answer), reply=reply)

    @cached_property
    def _replies(self) -> Mapping[str, tuple[str, str]]:
        """Answer and reply by question id."""
        replies: dict[str, tuple[str, str]] = {}
        names = ("answer", "reply" if self.reply else "answer")
        for row in read_columns(self, "strategy.plan"):
            question_id = row.read_text("id")
            if question_id in replies:
                raise InputError.at(
                    row.place,
                    received=question_id,
                    expected="a question that no line before answers",
                )
            answer, reply = (_read_reply(row, name) for name in names)
            replies[question_id] = (answer, reply)
        return replies


def _read_reply(row: ColumnRow, name: str) -> str:
    """Return a reply without reasoning; none, or a blank one, is an empty text."""
    value = row.values[name]
    if value is None or (isinstance(value, str) and not value.strip()):
        return ""
    return extract_final_text(row.read_text(name))
