"""The columns of every artifact, in one place: a contract between the stage that writes and those that read."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Contract:
    """The columns of one kind of artifact, and those whose combination must be unique."""

    name: str
    schema: pa.Schema
    unique: tuple[str, ...]


def _schema(*, nullable: tuple[str, ...] = (), **columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=name in nullable) for name, kind in columns.items()])


_TEXTS = pa.list_(pa.string())
CORPUS = Contract("corpus", _schema(passage_id=pa.string(), title=pa.string(), text=pa.string()), ("passage_id",))
QUESTIONS = Contract(
    "questions",
    _schema(
        question_id=pa.string(),
        question=pa.string(),
        answers=_TEXTS,
        gold_passage_ids=_TEXTS,
        split=pa.string(),
        answerable=pa.bool_(),
        meta=pa.string(),
        target=pa.string(),
    ),
    ("question_id",),
)
RETRIEVAL = Contract(
    "retrieval",
    _schema(
        nullable=("score",),
        question_id=pa.string(),
        rank=pa.int32(),
        passage_id=pa.string(),
        score=pa.float32(),
        has_answer=pa.bool_(),
    ),
    ("question_id", "passage_id"),
)
HITS = Contract(
    "hits",
    _schema(nullable=("score",), question_id=pa.string(), rank=pa.int32(), passage_id=pa.string(), score=pa.float32()),
    ("question_id", "passage_id"),
)
RELEVANCE = Contract(
    "relevance",
    _schema(question_id=pa.string(), passage_id=pa.string(), log_odds=pa.float32(), p_true=pa.float32()),
    ("question_id", "passage_id"),
)
CLOSED_BOOK = Contract(
    "closed_book",
    _schema(question_id=pa.string(), answer=pa.string(), em=pa.float32(), f1=pa.float32(), kept=pa.bool_()),
    ("question_id",),
)
_USAGE = pa.struct(
    [
        pa.field("role", pa.string(), nullable=False),
        pa.field("calls", pa.int32(), nullable=False),
        pa.field("tokens_in", pa.int64(), nullable=False),
        pa.field("tokens_out", pa.int64(), nullable=False),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("cut", pa.int64(), nullable=False),
        pa.field("empty", pa.int64(), nullable=False),
    ]
)
PREDICTIONS = Contract(
    "predictions",
    _schema(
        question_id=pa.string(),
        answer=pa.string(),
        unknown=pa.bool_(),
        candidates=_TEXTS,
        reply=pa.string(),
        trace=_TEXTS,
        passage_ids=_TEXTS,
        used_ids=_TEXTS,
        gold_position=pa.int32(),
        provenance=pa.string(),
        truncated_passages=pa.int32(),
        usage=pa.list_(_USAGE),
    ),
    ("question_id",),
)
"""Metrics are not stored: they are computed from these columns when a cell is read."""
