"""The closed-book filter: which questions a reader answers without any passage."""

from collections.abc import Iterable, Iterator
from typing import Any

from winnow.metrics.answer import exact_match, f1
from winnow.records import Question


def closed_book_rows(answered: Iterable[tuple[Question, str]]) -> Iterator[dict[str, Any]]:
    """Yield one row a question; `kept` marks those the reader gets wrong (no exact match), which studies go on with."""
    for question, answer in answered:
        em = exact_match(answer, question.answers)
        yield {
            "question_id": question.question_id,
            "answer": answer,
            "em": em,
            "f1": f1(answer, question.answers),
            "kept": em == 0.0,
        }
