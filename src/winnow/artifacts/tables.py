"""Records to rows of artifacts, and back."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from winnow.artifacts import contracts, parquet
from winnow.errors import ArtifactError
from winnow.metrics.calibration import probability
from winnow.metrics.ranking import has_answers
from winnow.records import Context, Hit, Passage, Prediction, Question, RoleUsage


def passage_rows(passages: Iterable[Passage]) -> Iterator[dict[str, Any]]:
    """Yield corpus rows."""
    return ({"passage_id": p.passage_id, "title": p.title, "text": p.text} for p in passages)


def read_passages(path: Path) -> Iterator[Passage]:
    """Yield the passages of a corpus artifact."""
    return (Passage(**row) for row in parquet.stream(path, contracts.CORPUS))


def question_rows(questions: Iterable[Question]) -> Iterator[dict[str, Any]]:
    """Yield question rows."""
    for q in questions:
        yield {
            "question_id": q.question_id,
            "question": q.text,
            "answers": list(q.answers),
            "gold_passage_ids": list(q.gold_passage_ids),
            "split": q.split,
            "answerable": q.answerable,
            "meta": q.meta,
            "target": q.target,
        }


def read_questions(path: Path, splits: Collection[str] = ()) -> list[Question]:
    """Return the questions of these splits (of all if none is named), in their stored order."""
    rows = parquet.read(path, contracts.QUESTIONS).to_pylist()
    known = sorted({row["split"] for row in rows})
    unknown = set(splits) - set(known)
    if unknown:
        raise ArtifactError(f"{path} has no split {sorted(unknown)}; it has {known}.")
    return [
        Question(
            row["question_id"],
            row["question"],
            tuple(row["answers"]),
            tuple(row["gold_passage_ids"]),
            row["split"],
            row["answerable"],
            row["meta"],
            row["target"],
        )
        for row in rows
        if not splits or row["split"] in splits
    ]


def hit_rows(questions: Iterable[Question], rankings: Iterable[Iterable[Hit]]) -> Iterator[dict[str, Any]]:
    """Yield one row per hit."""
    for question, hits in zip(questions, rankings, strict=True):
        for rank, hit in enumerate(hits, start=1):
            yield {"question_id": question.question_id, "rank": rank, "passage_id": hit.passage_id, "score": hit.score}


def retrieval_rows(
    questions: Iterable[Question], hits: Iterable[dict[str, Any]], texts: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield hit rows with has_answer; the rows of a question must be adjacent."""
    answers = {question.question_id: question.answers for question in questions}
    for question_id, group in itertools.groupby(hits, key=lambda row: row["question_id"]):
        rows = list(group)
        flags = has_answers([texts[row["passage_id"]] for row in rows], answers[question_id])
        for row, flag in zip(rows, flags, strict=True):
            yield {**row, "has_answer": flag}


def relevance_rows(question: Question, contexts: Sequence[Context], log_odds: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Yield one row per context."""
    p_true = probability(np.array(log_odds, dtype=np.float32)).tolist()
    for context, value, chance in zip(contexts, log_odds, p_true, strict=True):
        yield {
            "question_id": question.question_id,
            "passage_id": context.passage.passage_id,
            "log_odds": value,
            "p_true": chance,
        }


def prediction_row(prediction: Prediction) -> dict[str, Any]:
    """Return the row of a prediction."""
    row = asdict(prediction)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()}


def read_predictions(path: Path) -> list[Prediction]:
    """Return the predictions of a cell, in the order of its questions."""
    texts = ("candidates", "trace", "passage_ids", "used_ids")
    return [
        Prediction(
            **{
                **row,
                **{name: tuple(row[name]) for name in texts},
                "usage": tuple(RoleUsage(**part) for part in row["usage"]),
            }
        )
        for row in parquet.read(path, contracts.PREDICTIONS).to_pylist()
    ]
