"""Hits of retrieval in parts: files that several processes write and one turns into rankings."""

import itertools
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flows.project.artifacts import Artifact, Project
from winnow.artifacts import contracts, parquet
from winnow.artifacts.files import hold_lock
from winnow.artifacts.rankings import UNRANKED
from winnow.artifacts.tables import (
    build_hit_rows,
    build_passage_rows,
    build_retrieval_rows,
    read_passages,
)
from winnow.errors import ConfigError, InputError
from winnow.protocols import Searcher
from winnow.records import Hit, Question

QUESTIONS_PER_PART = 500
"""Number of questions per part; an interrupted run continues after the last complete part."""


@contextmanager
def hold_parts(folder: Path) -> Iterator[None]:
    """Keep other processes of this machine from writing the same rankings; wait for one that does.

    The lock is a file among the parts, which are removed when the rankings are finished.
    """
    folder.mkdir(parents=True, exist_ok=True)
    notice = f"Another process writes {folder.parent}, which is waited for."
    with hold_lock(folder / ".lock", notice):
        yield


def list_parts(folder: Path) -> list[Path]:
    """Return the parts in a folder."""
    return sorted(folder.glob("*.parquet"))


def read_found_questions(parts: Sequence[Path]) -> set[str]:
    """Return the ids of the questions whose hits are in the parts."""
    columns = [
        parquet.read(part, contracts.HITS, columns=["question_id"])["question_id"] for part in parts
    ]
    return {question_id for column in columns for question_id in column.unique().to_pylist()}


def read_unranked_questions(parts: Sequence[Path]) -> set[str]:
    """Return the ids of the questions of the parts for which nothing was retrieved."""
    files = [_name_unranked(part) for part in parts]
    columns = [
        parquet.read(file, contracts.UNRANKED)["question_id"] for file in files if file.is_file()
    ]
    return {question_id for column in columns for question_id in column.to_pylist()}


def _name_unranked(part: Path) -> Path:
    """Return the file of a part's questions without hits, which is written before the part."""
    return part.parent / "unranked" / part.name


def write_parts(
    folder: Path, name: str, searcher: Searcher, questions: Sequence[Question], depth: int
) -> Iterator[int]:
    """Retrieve for questions, write their hits in parts, and yield the number of questions of each.

    Args:
        folder: Folder of the parts.
        name: First word of the names of this process's parts, after which a number follows.
        searcher: The open index.
        questions: Questions, in the order of the data set.
        depth: Number of passages per question.
    """
    number = len(list(folder.glob(f"{name}-*.parquet")))
    for batch in parquet.batched(questions, QUESTIONS_PER_PART):
        rankings = searcher.search(batch, depth)
        _check_rankings(searcher, batch, rankings)
        part = folder / f"{name}-{number:05d}.parquet"
        unranked = [
            question.question_id for question, hits in zip(batch, rankings, strict=True) if not hits
        ]
        if unranked:
            rows = ({"question_id": question_id} for question_id in unranked)
            parquet.write(_name_unranked(part), contracts.UNRANKED, rows)
        parquet.write(part, contracts.HITS, build_hit_rows(batch, rankings))
        number += 1
        yield len(batch)


def _check_rankings(
    searcher: Searcher, batch: Sequence[Question], rankings: Sequence[Sequence[Hit]]
) -> None:
    """Raise ConfigError if a retriever's hits are not those of one question each."""
    name = f"{type(searcher).__qualname__}.search"
    if len(rankings) != len(batch):
        raise ConfigError(
            f"{name}: expected {len(batch)} rankings, one for each question; received "
            f"{len(rankings)}."
        )
    for hit in (hit for hits in rankings for hit in hits):
        if not isinstance(hit.passage_id, str):
            raise ConfigError(
                f"{name}: the id of a passage must be a text; received {hit.passage_id!r}."
            )


def _locate_questions(parts: Sequence[Path]) -> dict[str, Path]:
    """Return a part with the hits of each question; a question may be in two parts."""
    return {id_: part for part in parts for id_ in read_found_questions([part])}


def _iter_hits(
    part_by_question: Mapping[str, Path], questions: Sequence[Question]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of hits in the order of the questions, without those that are in no part.

    A part has its questions in this order too, so that only some rows of each are in memory.
    """
    groups = {part: _iter_groups(part) for part in set(part_by_question.values())}
    for id_ in (
        question.question_id for question in questions if question.question_id in part_by_question
    ):
        yield from next(rows for key, rows in groups[part_by_question[id_]] if key == id_)


def _iter_groups(part: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the id of each question with its rows."""
    for id_, rows in itertools.groupby(
        parquet.stream(part, contracts.HITS, batch=1000), key=lambda row: row["question_id"]
    ):
        yield id_, list(rows)


def write_rankings(
    project: Project, artifact: Artifact, parts: Sequence[Path], questions: Sequence[Question]
) -> None:
    """Write the parts' rankings and passage texts, finish the artifact, and remove the parts.

    Raises:
        InputError: If no passage was found for any question, if a passage is not in the corpus, or
            if the parts lack a question.
    """
    unranked, part_by_question = read_unranked_questions(parts), _locate_questions(parts)
    lost = {question.question_id for question in questions} - unranked - part_by_question.keys()
    if lost:
        raise InputError(
            f"{artifact.folder}: the parts lack {len(lost)} of {len(questions)} questions, such as "
            f"{min(lost)!r}. Another process has finished these rankings, or removed parts. Run "
            "the command again."
        )
    if len(unranked) == len(questions):
        raise InputError(_describe_nothing_found(project, artifact, questions))
    if unranked:
        ids = [question.question_id for question in questions if question.question_id in unranked]
        parquet.write(
            artifact.folder / UNRANKED, contracts.UNRANKED, ({"question_id": id_} for id_ in ids)
        )
    texts = _write_texts(project, artifact.folder, parts, questions)
    rows = build_retrieval_rows(questions, _iter_hits(part_by_question, questions), texts)
    count = parquet.write(artifact.folder / "contexts.parquet", contracts.RETRIEVAL, rows)
    shutil.rmtree(artifact.folder / "shards")
    artifact.finish(count)


def _describe_nothing_found(
    project: Project, artifact: Artifact, questions: Sequence[Question]
) -> str:
    """Return the message for rankings without a passage."""
    problem = (
        f"No passage was retrieved for any of {len(questions)} questions, such as "
        f"{questions[0].text!r}"
    )
    if artifact.stage == "rank":
        return (
            f"{problem}: the queries of the plan of retriever={project.settings.retriever.name} "
            "found none. Look at the replies (`winnow ledger`), and choose a model that follows "
            "its prompt, such as reader@rewriter=openai."
        )
    return (
        f"{problem}: the corpus {project.settings.corpus.name} contains none of their words. "
        "Choose the corpus that belongs to the questions, or set retriever=dense."
    )


def _write_texts(
    project: Project, folder: Path, parts: Sequence[Path], questions: Sequence[Question]
) -> dict[str, str]:
    """Write the retrieved and gold passages so later stages need no corpus; return texts by id."""
    gold = {passage_id for question in questions for passage_id in question.gold_passage_ids}
    ranked_ids = set[str]()
    for part in parts:
        ranked_ids.update(
            parquet.read(part, contracts.HITS, columns=["passage_id"])["passage_id"].to_pylist()
        )
    needed_ids = ranked_ids | gold
    corpus = project.corpus.require() / "passages.parquet"
    passages = [passage for passage in read_passages(corpus) if passage.passage_id in needed_ids]
    unknown = sorted(ranked_ids.difference(passage.passage_id for passage in passages))
    if unknown:
        raise InputError(
            f"{len(unknown)} of {len(ranked_ids)} passages of the rankings are not in the corpus "
            f"{project.settings.corpus.name}, such as {unknown[0]!r}. The file of rankings "
            "(retriever.engine.path) and the corpus have other ids: choose that which was "
            "searched, or correct its column of ids (corpus.parser)."
        )
    parquet.write(folder / "passages.parquet", contracts.CORPUS, build_passage_rows(passages))
    return {passage.passage_id: passage.text for passage in passages}
