"""Reading of stored rankings: the retrieved passages of each question, their texts and their log-odds of relevance."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from winnow.artifacts import contracts, parquet
from winnow.errors import ArtifactError
from winnow.records import Passage, Question


@dataclass(frozen=True, slots=True)
class RankedHit:
    """One row of a stored ranking. `rank` starts at 1."""

    passage_id: str
    rank: int
    score: float | None
    has_answer: bool


@dataclass
class PassagePool(Sequence[Passage]):
    """All passages of a retrieval artifact in the order of their ids, which are read into memory when first used."""

    folder: Path

    @cached_property
    def _table(self) -> pa.Table:
        return parquet.read(self.folder / "passages.parquet", contracts.CORPUS).sort_by("passage_id")

    def __len__(self) -> int:
        """Return the number of passages."""
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, index: int) -> Passage: ...
    @overload
    def __getitem__(self, index: slice) -> list[Passage]: ...
    def __getitem__(self, index: int | slice) -> Passage | list[Passage]:
        """Return one passage, or those of a slice."""
        if isinstance(index, slice):
            return [Passage(**row) for row in self._table.take(list(range(len(self)))[index]).to_pylist()]
        return Passage(**self._table.slice(range(len(self))[index], 1).to_pylist()[0])


@dataclass(frozen=True, slots=True)
class Rankings:
    """The rankings of some questions.

    Attributes:
        folder: Folder of the retrieval artifact.
        hits: Hits of each question by question id, best first.
        passages: Retrieved and gold passages by passage id.
        log_odds: Log-odds of relevance by question id and passage id; empty if no relevance artifact was read.
        pool: Passages that were retrieved for any question of the artifact.

    """

    folder: Path
    hits: Mapping[str, Sequence[RankedHit]]
    passages: Mapping[str, Passage]
    log_odds: Mapping[tuple[str, str], float]
    pool: Sequence[Passage] = ()

    def count_short_rankings(self, k: int) -> int:
        """Count the questions with fewer than k retrieved passages.

        Raises:
            ArtifactError: If every question has fewer.

        """
        lengths = [len(hits) for hits in self.hits.values() if len(hits) < k]
        if lengths and len(lengths) == len(self.hits):
            raise ArtifactError(
                f"k={k} is larger than what was retrieved for any question: {self.folder} has at most {max(lengths)} contexts "
                "per question. Lower k, or retrieve from a larger corpus."
            )
        return len(lengths)


def read_rankings(folder: Path, questions: Collection[Question], relevance: Path | None = None) -> Rankings:
    """Read the rankings of questions.

    Args:
        folder: Folder of the retrieval artifact.
        questions: Questions to read.
        relevance: File of the relevance artifact, which contains log-odds, or None if they are not needed.

    Raises:
        ArtifactError: If a question has no contexts or no log-odds, or if the text of a passage is missing.

    """
    ids = [question.question_id for question in questions]
    table = parquet.read(folder / "contexts.parquet", contracts.RETRIEVAL, filters=pc.field("question_id").isin(ids))
    hits: dict[str, list[RankedHit]] = {}
    for row in table.to_pylist():
        hit = RankedHit(row["passage_id"], row["rank"], row["score"], row["has_answer"])
        hits.setdefault(row["question_id"], []).append(hit)
    for ranking in hits.values():
        ranking.sort(key=lambda hit: hit.rank)
    passages = _read_passages(folder, hits, questions)
    return Rankings(folder, hits, passages, _read_log_odds(relevance, ids) if relevance else {}, PassagePool(folder))


def _read_passages(
    folder: Path, hits: Mapping[str, Sequence[RankedHit]], questions: Collection[Question]
) -> dict[str, Passage]:
    """Read the retrieved and the gold passages, and check that none is missing."""
    used: set[str] = {hit.passage_id for ranking in hits.values() for hit in ranking}
    used |= {passage_id for question in questions for passage_id in question.gold_passage_ids}
    is_used = pc.field("passage_id").isin(pa.array(sorted(used), pa.string()))
    rows = parquet.read(folder / "passages.parquet", contracts.CORPUS, filters=is_used)
    passages = {row["passage_id"]: Passage(**row) for row in rows.to_pylist()}
    for question in questions:
        if question.question_id not in hits:
            raise ArtifactError(
                f"{folder}/contexts.parquet contains no context for question {question.question_id!r} "
                f"({question.text!r}). Run `python -m flows.retrieve` again with the same dataset."
            )
        for hit in hits[question.question_id]:
            if hit.passage_id not in passages:
                raise ArtifactError(
                    f"{folder}/contexts.parquet, question {question.question_id!r}, rank {hit.rank}: the passage "
                    f"{hit.passage_id!r} is not in passages.parquet. Run `python -m flows.retrieve` again."
                )
        for passage_id in question.gold_passage_ids:
            if passage_id not in passages:
                raise ArtifactError(
                    f"{folder}/passages.parquet lacks the gold passage {passage_id!r} of question {question.question_id!r}. "
                    "The corpus and the questions do not belong together. Use the corpus that the dataset names."
                )
    return passages


def _read_log_odds(path: Path, ids: Collection[str]) -> dict[tuple[str, str], float]:
    """Read the log-odds of the questions with these ids, by question id and passage id."""
    table = parquet.read(path, contracts.RELEVANCE, filters=pc.field("question_id").isin(list(ids)))
    log_odds = {(row["question_id"], row["passage_id"]): row["log_odds"] for row in table.to_pylist()}
    scored = {question_id for question_id, _ in log_odds}
    missing = next((question_id for question_id in ids if question_id not in scored), None)
    if missing is not None:
        raise ArtifactError(
            f"{path} contains no log-odds for question {missing!r}. Run `python -m flows.score` with the same settings, and "
            "score.limit large enough for the questions of the sweep."
        )
    return log_odds
