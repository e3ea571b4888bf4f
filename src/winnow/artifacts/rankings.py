"""Read stored rankings: each question's passages, with their texts and log-odds of relevance."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from winnow.artifacts import contracts, parquet
from winnow.artifacts.columns import (
    GroupedRows,
    MappedPassages,
    find_first_missing,
    read_passages_by_id,
)
from winnow.artifacts.sequences import LazySequence
from winnow.errors import ArtifactError
from winnow.predictions import RoleUsage
from winnow.records import Passage, Question

UNRANKED = "unranked.parquet"
"""File with the questions for which nothing was retrieved. It is absent if there are none."""
_USAGE = "usage.parquet"
"""File with what models used for the ranking of each question. It is absent if none took part."""


@dataclass(frozen=True, slots=True)
class RankedHit:
    """One row of a stored ranking. `rank` starts at 1."""

    passage_id: str
    rank: int
    score: float | None
    has_answer: bool


@dataclass
class PassagePool(LazySequence[Passage]):
    """All passages of a retrieval artifact, sorted by id and read into memory when first used."""

    folder: Path

    @cached_property
    def _table(self) -> pa.Table:
        return parquet.read(self.folder / "passages.parquet", contracts.CORPUS).sort_by(
            "passage_id"
        )

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def read(self, index: int) -> Passage:
        """Return the passage at an index."""
        return Passage(**self._table.slice(index, 1).to_pylist()[0])


@dataclass(frozen=True, slots=True)
class Rankings:
    """The rankings of some questions.

    Attributes:
        folder: Folder of the retrieval artifact.
        hits: Hits of each question by question id, best first; none if the retriever found no
            passage.
        passages: Retrieved and gold passages by passage id.
        log_odds: Log-odds of relevance by question id and passage id; empty if no relevance
            artifact was read.
        pool: Passages that were retrieved for any question of the artifact.
        usage: What models used for the ranking of each question, by question id; empty if none took
            part.
        built: Contexts that were built last, which the next cells use (see
            `winnow.contexts.build`).
    """

    folder: Path
    hits: Mapping[str, Sequence[RankedHit]]
    passages: Mapping[str, Passage]
    log_odds: Mapping[str, Mapping[str, float]]
    pool: Sequence[Passage] = ()
    usage: Mapping[str, Sequence[RoleUsage]] = field(default_factory=dict)
    built: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    def get_passages(self, ids: Sequence[str]) -> Mapping[str, Passage]:
        """Return a mapping that includes these passages; those in a file are read at once."""
        return (
            self.passages.get_many(ids)
            if isinstance(self.passages, MappedPassages)
            else self.passages
        )

    def count_short_rankings(self, k: int) -> int:
        """Count the questions with fewer than k retrieved passages.

        Raises:
            ArtifactError: If every question has fewer.
        """
        all_lengths = (
            self.hits.lengths
            if isinstance(self.hits, GroupedRows)
            else [len(hits) for hits in self.hits.values()]
        )
        lengths = [length for length in all_lengths if length < k]
        if lengths and len(lengths) == len(self.hits):
            raise ArtifactError(
                f"k={k} is larger than what was retrieved for any question: {self.folder} has at "
                f"most {max(lengths)} contexts per question. Lower k, or retrieve from a larger "
                "corpus."
            )
        return len(lengths)


def read_rankings(
    folder: Path,
    questions: Collection[Question],
    relevance: Path | None = None,
    pool: Path | None = None,
) -> Rankings:
    """Read the rankings of questions.

    Args:
        folder: Folder of the retrieval artifact.
        questions: Questions to read.
        relevance: File of the relevance artifact, which contains log-odds, or None if they are not
            needed.
        pool: Folder of the retrieval artifact from whose passages others are drawn, by default
            `folder`.

    Raises:
        ArtifactError: If a question was not retrieved for or has no log-odds, or if the text of a
            passage is missing.
    """
    ids = [question.question_id for question in questions]
    table = parquet.read(folder / "contexts.parquet", contracts.RETRIEVAL, filters=_select(ids))
    unranked = read_unranked(folder)
    hits = GroupedRows(table, "question_id", ids, _build_hits, unranked)
    gold = {passage_id for question in questions for passage_id in question.gold_passage_ids}
    passage_ids = pc.unique(
        pa.chunked_array(
            [*table["passage_id"].chunks, pa.array(sorted(gold), pa.string())], pa.string()
        )
    )
    passages = read_passages_by_id(folder / "passages.parquet", passage_ids)
    _check(folder, questions, table, hits, passages)
    log_odds = _read_log_odds(relevance, ids, unranked) if relevance else {}
    return Rankings(
        folder, hits, passages, log_odds, PassagePool(pool or folder), _read_usage(folder, ids)
    )


def write_usage(folder: Path, usage: Mapping[str, Sequence[RoleUsage]]) -> None:
    """Write what models used for the ranking of each question, by question id."""
    rows = (
        {"question_id": id_, "usage": [asdict(one) for one in role_usages]}
        for id_, role_usages in usage.items()
    )
    parquet.write(folder / _USAGE, contracts.RANKING_USAGE, rows)


def _read_usage(folder: Path, ids: Sequence[str]) -> dict[str, tuple[RoleUsage, ...]]:
    """Read what models used for the questions' rankings; the result is empty if none took part."""
    if not (folder / _USAGE).is_file():
        return {}
    rows = parquet.read(folder / _USAGE, contracts.RANKING_USAGE, filters=_select(ids)).to_pylist()
    return {row["question_id"]: tuple(RoleUsage(**entry) for entry in row["usage"]) for row in rows}


def read_unranked(folder: Path) -> set[str]:
    """Return the ids of the questions for which the retriever found no passage."""
    path = folder / UNRANKED
    return (
        set(parquet.read(path, contracts.UNRANKED)["question_id"].to_pylist())
        if path.is_file()
        else set()
    )


def _select(ids: Sequence[str]) -> pc.Expression:
    return pc.field("question_id").isin(pa.array(ids, pa.string()))


def _build_hits(columns: Mapping[str, Sequence[Any]]) -> list[RankedHit]:
    names = ("passage_id", "rank", "score", "has_answer")
    return [RankedHit(*row) for row in zip(*(columns[name] for name in names), strict=True)]


def _check(
    folder: Path,
    questions: Collection[Question],
    table: pa.Table,
    hits: Mapping[str, Any],
    passages: Mapping[str, Passage],
) -> None:
    """Raise ArtifactError if a question has no hits or a retrieved or gold passage is missing."""
    unranked = next((question for question in questions if question.question_id not in hits), None)
    if unranked is not None:
        raise ArtifactError(
            f"{folder}/contexts.parquet contains no context for question {unranked.question_id!r} "
            f"({unranked.text!r}). Run `python -m flows.retrieve` again with the same dataset; "
            "for a retriever with a plan, raise rank.limit (null means all) or name the split in "
            "rank.splits, and run `python -m flows.rank`."
        )
    known_ids = (
        passages.ids
        if isinstance(passages, MappedPassages)
        else pa.chunked_array([pa.array(passages, pa.string())])
    )
    index = find_first_missing(table["passage_id"], known_ids)
    if index is not None:
        row = table.slice(index, 1).to_pylist()[0]
        raise ArtifactError(
            f"{folder}/contexts.parquet, question {row['question_id']!r}, rank {row['rank']}: the "
            f"passage {row['passage_id']!r} is not in passages.parquet. Run `python -m "
            "flows.retrieve` again."
        )
    gold = [
        (passage_id, question) for question in questions for passage_id in question.gold_passage_ids
    ]
    index = find_first_missing(
        pa.chunked_array([pa.array([entry[0] for entry in gold], pa.string())]), known_ids
    )
    if index is not None:
        passage_id, question = gold[index]
        raise ArtifactError(
            f"{folder}/passages.parquet lacks the gold passage {passage_id!r} of question "
            f"{question.question_id!r}. The corpus and the questions do not belong together. "
            "Check the corpus, and the columns of ids (for JSON lines dataset.parser.gold and "
            "corpus.parser.id)."
        )


def _read_log_odds(
    path: Path, ids: Sequence[str], unranked: Collection[str]
) -> Mapping[str, Mapping[str, float]]:
    """Read the log-odds of the questions with these ids, by question id and passage id."""
    table = parquet.read(path, contracts.RELEVANCE, filters=_select(ids))
    log_odds = GroupedRows(
        table.select(["question_id", "passage_id", "log_odds"]),
        "question_id",
        ids,
        lambda columns: dict(zip(columns["passage_id"], columns["log_odds"], strict=True)),
        unranked,
    )
    missing_id = next((question_id for question_id in ids if question_id not in log_odds), None)
    if missing_id is not None:
        raise ArtifactError(
            f"{path} contains no log-odds for question {missing_id!r}. Run `python -m flows.score` "
            "with the same settings, and score.limit large enough for the questions of the "
            "sweep."
        )
    return log_odds
