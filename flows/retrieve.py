"""Retrieve the top passages of every question once (depth 100 serves every smaller k), with has_answer beside each.

python -m flows.retrieve
python -m flows.retrieve retriever=dense
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from flows._artifacts import Artifact, Project
from flows._build import build
from flows._entry import entry
from flows._summary import Summary, progress
from flows._track import track
from winnow.artifacts import contracts, parquet
from winnow.artifacts.rankings import read_rankings
from winnow.artifacts.tables import hit_rows, passage_rows, read_passages, read_questions, retrieval_rows
from winnow.errors import ArtifactError
from winnow.metrics.intervals import mean_interval
from winnow.metrics.ranking import recall_at
from winnow.protocols import Searcher
from winnow.records import Question

SHARD = 500
"""Questions per shard; an interrupted run continues after the last complete shard."""
DEPTHS = (1, 5, 10, 20, 50, 100)


def retrieve(configs: Sequence[DictConfig]) -> Summary:
    """Retrieve for each job, with the configured and the labelling retriever, and report recall@k by split."""
    rows = []
    for cfg in configs:
        project = Project(cfg)
        questions = read_questions(project.questions_file)
        retrievers = {project.index(node).key: node for node in (cfg.answerable.retriever, cfg.retriever.engine)}
        for retriever in retrievers.values():
            artifact = project.retrieval(retriever)
            fresh = not artifact.done
            if fresh:
                _write(project, retriever, artifact, questions)
            recalls = recall_rows(artifact.folder, questions)
            if fresh:
                with track(project, "retrieve", artifact, {"k": cfg.depth}) as run:
                    run.metrics({f"{row['split']}_recall_at_{k}": row[f"recall@{k}"].mean for row in recalls for k in DEPTHS})
            rows += [{n: v.percent() if hasattr(v, "percent") else v for n, v in row.items()} for row in recalls]
    return Summary("Retrieval, % [95 % interval]", rows)


def _write(project: Project, retriever: DictConfig, artifact: Artifact, questions: Sequence[Question]) -> None:
    shards, depth = artifact.folder / "shards", project.cfg.depth
    searcher = build(retriever).open(project.index(retriever).require())
    with progress("retrieving", len(questions)) as advance:
        parts = []
        for number, batch in enumerate(parquet.batched(questions, SHARD)):
            parts.append(_write_shard(shards / f"{number:05d}.parquet", searcher, batch, depth))
            advance(len(batch))
    texts = _write_texts(project, artifact.folder, parts, questions)
    hits = (row for part in parts for row in parquet.stream(part, contracts.HITS))
    rows = retrieval_rows(questions, hits, texts)
    count = parquet.write(artifact.folder / "contexts.parquet", contracts.RETRIEVAL, rows)
    shutil.rmtree(shards)
    artifact.finish(count)


def _write_shard(path: Path, searcher: Searcher, batch: Sequence[Question], depth: int) -> Path:
    """Search for one batch of questions, unless an interrupted run has written its shard."""
    if path.is_file():
        return path
    rankings = searcher.search(batch, depth)
    empty = next((question for question, hits in zip(batch, rankings, strict=True) if not hits), None)
    if empty is not None:
        raise ArtifactError(
            f"No passage was retrieved for question {empty.question_id!r} ({empty.text!r}): no word of it is in the "
            "corpus. Remove it from the data set, or use retriever=dense or retriever=hybrid."
        )
    parquet.write(path, contracts.HITS, hit_rows(batch, rankings))
    return path


def _write_texts(project: Project, folder: Path, parts: Sequence[Path], questions: Sequence[Question]) -> dict[str, str]:
    """Write the passages of the rankings and the gold ones, so that later stages need no corpus; return the texts."""
    ids = {passage_id for question in questions for passage_id in question.gold_passage_ids}
    for part in parts:
        ids.update(parquet.read(part, contracts.HITS, columns=["passage_id"])["passage_id"].to_pylist())
    corpus = project.corpus.require() / "passages.parquet"
    passages = [passage for passage in read_passages(corpus) if passage.passage_id in ids]
    parquet.write(folder / "passages.parquet", contracts.CORPUS, passage_rows(passages))
    return {passage.passage_id: passage.text for passage in passages}


def recall_rows(folder: Path, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Return recall@k by split with its interval: by gold passages where they are annotated, else by has_answer."""
    rankings = read_rankings(folder, questions)
    flags = {}
    for question in questions:
        gold = set(question.gold_passage_ids)
        hits = rankings.hits[question.question_id]
        flags[question.question_id] = [hit.passage_id in gold if gold else hit.has_answer for hit in hits]
    rows = []
    for split in dict.fromkeys(question.split for question in questions):
        ranked = [flags[question.question_id] for question in questions if question.split == split]
        recalls = {f"recall@{k}": mean_interval(recall_at(ranked, k)) for k in DEPTHS}
        rows.append({"retrieval": folder.name, "split": split, "questions": len(ranked), **recalls})
    return rows


main = entry(retrieve)
if __name__ == "__main__":
    main()
