"""The columns of every artifact (a file that a stage writes).

The stage that writes an artifact and the stages that read it check it against the same contract.
"""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Contract:
    """The columns of one kind of artifact.

    Attributes:
        name: Kind of the artifact, for error messages.
        schema: Names and types of the columns.
        unique_columns: Columns whose combination of values must be unique.
    """

    name: str
    schema: pa.Schema
    unique_columns: tuple[str, ...]


def _schema(*, nullable: tuple[str, ...] = (), **columns: pa.DataType) -> pa.Schema:
    return pa.schema(
        [
            pa.field(name, column_type, nullable=name in nullable)
            for name, column_type in columns.items()
        ]
    )


_TEXTS = pa.list_(pa.string())
CORPUS = Contract(
    "corpus", _schema(passage_id=pa.string(), title=pa.string(), text=pa.string()), ("passage_id",)
)
"""Passages of a corpus."""
QUESTIONS = Contract(
    "questions",
    _schema(
        nullable=("answerable",),
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
"""Questions of a dataset with their answers."""
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
"""Retrieved passages of each question, with a flag for those that contain an answer."""
HITS = Contract(
    "hits",
    _schema(
        nullable=("score",),
        question_id=pa.string(),
        rank=pa.int32(),
        passage_id=pa.string(),
        score=pa.float32(),
    ),
    ("question_id", "passage_id"),
)
"""Hits of the retriever for one part of the questions, from which the retrieval artifact is built.
"""
UNRANKED = Contract("unranked", _schema(question_id=pa.string()), ("question_id",))
"""Questions for which the retriever found no passage, in a rankings artifact or one part of it."""
RELEVANCE = Contract(
    "relevance",
    _schema(
        question_id=pa.string(), passage_id=pa.string(), log_odds=pa.float32(), p_true=pa.float32()
    ),
    ("question_id", "passage_id"),
)
"""The estimator's log-odds that a passage is relevant to a question, also as a probability."""
CLOSED_BOOK = Contract(
    "closed_book",
    _schema(
        question_id=pa.string(),
        answer=pa.string(),
        em=pa.float32(),
        f1=pa.float32(),
        kept=pa.bool_(),
    ),
    ("question_id",),
)
"""Answers without passages. `kept` marks the questions without an exact match, which sweeps answer.
"""
_USAGE = pa.struct(
    [
        pa.field("role", pa.string(), nullable=False),
        pa.field("calls", pa.int32(), nullable=False),
        pa.field("tokens_in", pa.int64(), nullable=False),
        pa.field("tokens_out", pa.int64(), nullable=False),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("cut", pa.int64(), nullable=False),
        pa.field("empty", pa.int64(), nullable=False),
        pa.field("tokens_reasoning", pa.int64(), nullable=False),
        pa.field("replies", pa.int64(), nullable=False),
    ]
)
"""Usage of one role: `cut` counts replies cut at the token limit, `empty` replies without text."""
RANKING_USAGE = Contract(
    "ranking_usage", _schema(question_id=pa.string(), usage=pa.list_(_USAGE)), ("question_id",)
)
"""Calls, tokens and time of the models that took part in the ranking of each question, by role."""
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
"""Predictions of a cell (a setting of a sweep); reading the cell computes metrics from them."""
_STEP = pa.struct(
    [
        pa.field("round", pa.int32(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("role", pa.string(), nullable=False),
        pa.field("passages", pa.list_(pa.int32()), nullable=False),
        pa.field("query", pa.string(), nullable=False),
        pa.field("finish", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("calls", pa.int32(), nullable=False),
    ]
)
"""A step (`winnow.steps`). Passages are row numbers in the STEP_PASSAGES artifact next to it."""
STEPS = Contract(
    "steps",
    _schema(
        question_id=pa.string(), stop=pa.string(), used=pa.list_(pa.int32()), steps=pa.list_(_STEP)
    ),
    ("question_id",),
)
"""Steps of the strategy for each question, why it ended, and the passages that led to the reply."""
STEP_PASSAGES = Contract(
    "passages of steps",
    _schema(
        nullable=("title", "text"),
        number=pa.int32(),
        passage_id=pa.string(),
        title=pa.string(),
        text=pa.string(),
        sources=_TEXTS,
        origin=pa.string(),
    ),
    ("number",),
)
"""Distinct passages of a cell's steps, with null title and text if the same as in the rankings.

`origin` is "rankings", "search" (found by a search, or made of what was found) or "strategy" (any
other text).
"""
