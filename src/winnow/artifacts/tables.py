"""Conversion between records and the rows of artifacts."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from winnow.artifacts import contracts, parquet
from winnow.errors import ArtifactError, InputError
from winnow.metrics.calibration import compute_probability
from winnow.predictions import Prediction, RoleUsage
from winnow.records import Context, Hit, Passage, Question
from winnow.text.containment import has_answers


def build_passage_rows(passages: Iterable[Passage]) -> Iterator[dict[str, Any]]:
    """Convert passages to rows of a corpus artifact."""
    return (
        {"passage_id": passage.passage_id, "title": passage.title, "text": passage.text}
        for passage in passages
    )


def read_passages(path: Path) -> Iterator[Passage]:
    """Yield the passages of a corpus artifact."""
    return (Passage(**row) for row in parquet.stream(path, contracts.CORPUS))


def build_question_rows(questions: Iterable[Question]) -> Iterator[dict[str, Any]]:
    """Convert questions to rows of a questions artifact.

    Raises:
        InputError: If a parser gave a field of another type, such as a text for the answers, which
            would be stored as its letters.
    """
    for question in questions:
        _check_question(question)
        yield {
            "question_id": question.question_id,
            "question": question.text,
            "answers": list(question.answers),
            "gold_passage_ids": list(question.gold_passage_ids),
            "split": question.split,
            "answerable": question.answerable,
            "meta": question.meta,
            "target": question.target,
        }


def _check_question(question: Question) -> None:
    """Raise InputError if a field of a question has another type than it declares."""
    for name in ("answers", "gold_passage_ids"):
        values = getattr(question, name)
        is_sequence = isinstance(values, tuple | list)
        if not is_sequence or not all(isinstance(one, str) for one in values):
            raise InputError(
                f"Question {question.question_id!r}: {name} must be a tuple of texts; received "
                f"{values!r}. Correct the parser."
            )
    if not isinstance(question.question_id, str):
        raise InputError(
            f"Question {question.question_id!r}: question_id must be a text; received "
            f"{type(question.question_id).__name__}. Correct the parser."
        )


def read_questions(path: Path, splits: Collection[str] = ()) -> list[Question]:
    """Read questions in their stored order.

    Args:
        path: File of the questions artifact.
        splits: Names of the splits to read. If it is empty, all splits are read.

    Raises:
        ArtifactError: If the file does not contain one of the splits.
    """
    rows = parquet.read(path, contracts.QUESTIONS).to_pylist()
    known_splits = sorted({row["split"] for row in rows})
    unknown = set(splits) - set(known_splits)
    if unknown:
        raise ArtifactError(
            f"{path} has no split {sorted(unknown)}; it has {known_splits}. Choose one of these."
        )
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


def build_hit_rows(
    questions: Iterable[Question], rankings: Iterable[Iterable[Hit]]
) -> Iterator[dict[str, Any]]:
    """Convert the hits of each question, best first, to rows with a rank."""
    for question, hits in zip(questions, rankings, strict=True):
        for rank, hit in enumerate(hits, start=1):
            yield {
                "question_id": question.question_id,
                "rank": rank,
                "passage_id": hit.passage_id,
                "score": hit.score,
            }


def build_retrieval_rows(
    questions: Iterable[Question], hits: Iterable[dict[str, Any]], texts: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Add the column `has_answer` to the rows of hits.

    Args:
        questions: Questions with their answers.
        hits: Rows of hits. The rows of a question must be adjacent.
        texts: Texts of the passages by passage id.
    """
    answers = {question.question_id: question.answers for question in questions}
    for question_id, group in itertools.groupby(hits, key=lambda row: row["question_id"]):
        rows = list(group)
        flags = has_answers([texts[row["passage_id"]] for row in rows], answers[question_id])
        for row, flag in zip(rows, flags, strict=True):
            yield {**row, "has_answer": flag}


def build_relevance_rows(
    question: Question, contexts: Sequence[Context], log_odds: Sequence[float]
) -> Iterator[dict[str, Any]]:
    """Convert the log-odds of a question's contexts to rows of a relevance artifact."""
    probabilities = compute_probability(np.array(log_odds, dtype=np.float32)).tolist()
    for context, context_log_odds, p_true in zip(contexts, log_odds, probabilities, strict=True):
        yield {
            "question_id": question.question_id,
            "passage_id": context.passage.passage_id,
            "log_odds": context_log_odds,
            "p_true": p_true,
        }


def build_prediction_row(prediction: Prediction) -> dict[str, Any]:
    """Convert a prediction to a row of a predictions artifact."""
    row = asdict(prediction)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()}


def read_predictions(path: Path) -> list[Prediction]:
    """Read the predictions of a cell (one setting of a sweep), in the order of its questions."""
    return list(convert_predictions(read_prediction_table(path)))


def read_prediction_table(path: Path) -> pa.Table:
    """Read the predictions of a cell as a table, of which `convert_predictions` converts rows."""
    return parquet.read(path, contracts.PREDICTIONS).select(
        [field.name for field in fields(Prediction)]
    )


def convert_predictions(rows: pa.Table | pa.RecordBatch) -> Iterator[Prediction]:
    """Yield the predictions of rows of `read_prediction_table`."""
    columns = rows.drop_columns(["usage"]).to_pydict()
    for name in ("candidates", "trace", "passage_ids", "used_ids"):
        columns[name] = map(tuple, columns[name])
    usage = rows["usage"].combine_chunks() if isinstance(rows, pa.Table) else rows["usage"]
    parts = usage.flatten().flatten()
    entries = list(map(RoleUsage, *(part.to_pylist() for part in parts))) if len(parts[0]) else []
    ends = np.cumsum(usage.value_lengths().to_numpy(zero_copy_only=False)).tolist()
    columns["usage"] = (
        tuple(entries[start:end]) for start, end in zip([0, *ends], ends, strict=False)
    )
    return map(Prediction, *(columns[field.name] for field in fields(Prediction)))
