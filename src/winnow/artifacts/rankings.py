"""The stored rankings of some questions, with the texts of their passages; storage only, contexts are built elsewhere."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from winnow.artifacts import contracts, parquet
from winnow.errors import ArtifactError
from winnow.records import Passage, Question, RankedHit


@dataclass(frozen=True, slots=True)
class Rankings:
    """Rankings by question, their passages by id, and log-odds by (question, passage) where there are any."""

    folder: Path
    hits: Mapping[str, Sequence[RankedHit]]
    passages: Mapping[str, Passage]
    log_odds: Mapping[tuple[str, str], float]

    def shorter_than(self, k: int) -> int:
        """Return how many questions have fewer than k retrieved passages; raise ArtifactError if all do."""
        lengths = [len(hits) for hits in self.hits.values() if len(hits) < k]
        if lengths and len(lengths) == len(self.hits):
            raise ArtifactError(
                f"k={k} is larger than what was retrieved for any question (at most {max(lengths)} contexts, {self.folder}). "
                "Lower k, or retrieve from a larger corpus."
            )
        return len(lengths)


def read_rankings(folder: Path, questions: Collection[Question], relevance: Path | None = None) -> Rankings:
    """Read the rows of these questions from a retrieval artifact, and their log-odds from a relevance artifact.

    Raises:
        ArtifactError: for a question without contexts, and for a passage id without text.

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
    return Rankings(folder, hits, passages, _read_log_odds(relevance, ids) if relevance else {})


def _read_passages(
    folder: Path, hits: Mapping[str, Sequence[RankedHit]], questions: Collection[Question]
) -> dict[str, Passage]:
    used: set[str] = {hit.passage_id for ranking in hits.values() for hit in ranking}
    used |= {passage_id for question in questions for passage_id in question.gold_passage_ids}
    wanted = pc.field("passage_id").isin(pa.array(sorted(used), pa.string()))
    rows = parquet.read(folder / "passages.parquet", contracts.CORPUS, filters=wanted)
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
                    "The corpus and the questions do not belong together; use the corpus that the data set names."
                )
    return passages


def _read_log_odds(path: Path, ids: Collection[str]) -> dict[tuple[str, str], float]:
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
