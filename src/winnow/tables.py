"""Records to rows and back: questions, passages and rankings as their artifacts hold them."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from winnow import store
from winnow.errors import ArtifactError
from winnow.metrics.ranking import has_answers
from winnow.placement import mark_gold
from winnow.records import Context, Hit, Passage, Question


def passage_rows(passages: Iterable[Passage]) -> Iterator[dict[str, Any]]:
    """Yield corpus rows."""
    return ({"passage_id": p.passage_id, "title": p.title, "text": p.text} for p in passages)


def passages_of(path: Path) -> Iterator[Passage]:
    """Yield the passages of a corpus artifact."""
    return (Passage(**row) for row in store.stream(path, store.CORPUS))


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
        }


def questions_of(path: Path, splits: Collection[str] = ()) -> list[Question]:
    """Return the questions of these splits (all where none is named), in their stored order."""
    rows = store.read(path, store.QUESTIONS).to_pylist()
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
        )
        for row in rows
        if not splits or row["split"] in splits
    ]


def hit_rows(questions: Iterable[Question], rankings: Iterable[Iterable[Hit]]) -> Iterator[dict[str, Any]]:
    """Yield one row a hit."""
    for question, hits in zip(questions, rankings, strict=True):
        for rank, hit in enumerate(hits, start=1):
            yield {"question_id": question.question_id, "rank": rank, "passage_id": hit.passage_id, "score": hit.score}


def retrieval_rows(
    questions: Iterable[Question], hits: Iterable[dict[str, Any]], texts: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield hit rows with has_answer; the rows of a question stand together."""
    answers = {question.question_id: question.answers for question in questions}
    for question_id, group in itertools.groupby(hits, key=lambda row: row["question_id"]):
        rows = list(group)
        flags = has_answers([texts[row["passage_id"]] for row in rows], answers[question_id])
        for row, flag in zip(rows, flags, strict=True):
            yield {**row, "has_answer": flag}


class Rankings:
    """The stored rankings of some questions, with the texts of their passages; opened once, asked by question.

    Raises:
        ArtifactError: for a ranking that names a passage without text, or a question without contexts.

    """

    def __init__(
        self, folder: Path, questions: Collection[Question], relevance: Path | None = None, *, rerank: bool = True
    ) -> None:
        """Read the rows of these questions from a retrieval artifact, and their log-odds, by which `rerank` sorts them."""
        self.folder = folder
        wanted = [q.question_id for q in questions]
        table = store.read(folder / "contexts.parquet", store.RETRIEVAL, filters=pc.field("question_id").isin(wanted))
        self.rows: dict[str, list[dict[str, Any]]] = {}
        for row in table.to_pylist():
            self.rows.setdefault(row["question_id"], []).append(row)
        used = {row["passage_id"] for rows in self.rows.values() for row in rows}
        used |= {one for q in questions for one in q.gold_passage_ids}
        texts = store.read(folder / "passages.parquet", store.CORPUS, filters=pc.field("passage_id").isin(list(used)))
        self.passages = {row["passage_id"]: Passage(**row) for row in texts.to_pylist()}
        dangling = next((r for rows in self.rows.values() for r in rows if r["passage_id"] not in self.passages), None)
        if dangling:
            raise ArtifactError(
                f"{folder}/contexts.parquet, question {dangling['question_id']!r}, rank {dangling['rank']}: the passage "
                f"{dangling['passage_id']!r} is not in passages.parquet. Run `python -m flows.retrieve` again."
            )
        lost = next(((q, one) for q in questions for one in q.gold_passage_ids if one not in self.passages), None)
        if lost:
            raise ArtifactError(
                f"{folder}/passages.parquet lacks the gold passage {lost[1]!r} of question {lost[0].question_id!r}. "
                "The corpus and the questions do not belong together; take the corpus that the data set names."
            )
        self.log_odds = _log_odds(relevance, wanted) if relevance else {}
        self.relevance, self.rerank = relevance, rerank

    def shorter_than(self, k: int) -> int:
        """Return how many questions have fewer than k retrieved contexts; raise ArtifactError if all do."""
        short = [len(rows) for rows in self.rows.values() if len(rows) < k]
        if short and len(short) == len(self.rows):
            raise ArtifactError(
                f"k={k} is larger than what was retrieved for any question (at most {max(short)} contexts, {self.folder}). "
                "Lower k, or retrieve from a larger corpus."
            )
        return len(short)

    def contexts(self, question: Question) -> tuple[Context, ...]:
        """Return a question's ranking, gold passages marked; by log-odds where they rerank, else as retrieved."""
        rows = self.rows.get(question.question_id)
        if not rows:
            raise ArtifactError(
                f"{self.folder}/contexts.parquet holds no context for question {question.question_id!r} "
                f"({question.text!r}). Run `python -m flows.retrieve` again with the same dataset."
            )
        rows = sorted(rows, key=lambda row: int(row["rank"]))
        if self.relevance and self.rerank:
            rows = self._reranked(question, rows)
        contexts = [
            Context(
                self.passages[row["passage_id"]],
                rank,
                row["score"],
                row["has_answer"],
                log_odds=self.log_odds.get((question.question_id, row["passage_id"])),
            )
            for rank, row in enumerate(rows, start=1)
        ]
        retrieved = {row["passage_id"] for row in rows}
        missing = [self.passages[one] for one in question.gold_passage_ids if one not in retrieved]
        contexts += [
            Context(
                p,
                0,
                0.0,
                any(has_answers([p.text], question.answers)),
                log_odds=self.log_odds.get((question.question_id, p.passage_id)),
            )
            for p in missing
        ]
        return mark_gold(question, contexts)

    def _reranked(self, question: Question, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the scored rows by their log-odds, and behind them those beyond `score.depth` as retrieved."""
        known = [row for row in rows if (question.question_id, row["passage_id"]) in self.log_odds]
        if not known:
            raise ArtifactError(
                f"{self.relevance} holds no log-odds for question {question.question_id!r}. Run `python -m flows.score` with "
                "the same settings, and score.limit large enough for the questions of the sweep."
            )
        found = sorted(known, key=lambda row: -self.log_odds[question.question_id, row["passage_id"]])
        scored = {row["passage_id"] for row in known}
        return found + [row for row in rows if row["passage_id"] not in scored]


def _log_odds(path: Path, wanted: Collection[str]) -> dict[tuple[str, str], float]:
    table = store.read(path, store.RELEVANCE, filters=pc.field("question_id").isin(list(wanted)))
    return {(row["question_id"], row["passage_id"]): row["log_odds"] for row in table.to_pylist()}
