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
from winnow.artifacts.rankings import Rankings, read_rankings
from winnow.artifacts.tables import hit_rows, passage_rows, read_passages, read_questions, retrieval_rows
from winnow.errors import ArtifactError
from winnow.metrics.intervals import Interval, mean_interval, undefined_interval
from winnow.metrics.retrieval import RANK_MEASURES, judged_measures, top_k_accuracy
from winnow.protocols import Searcher
from winnow.records import Question

SHARD = 500
"""Questions per shard; an interrupted run continues after the last complete shard."""
DEPTHS = (1, 5, 10, 20, 50, 100)


def retrieve(configs: Sequence[DictConfig]) -> Summary:
    """Retrieve for each job, with the configured and the labelling retriever, and report the quality by split."""
    rows, notes = [], []
    for cfg in configs:
        project = Project(cfg)
        questions = read_questions(project.questions_file)
        retrievers = {project.index(node).key: node for node in (cfg.answerable.retriever, cfg.retriever.engine)}
        for retriever in retrievers.values():
            artifact = project.retrieval(retriever)
            fresh = not artifact.done
            if fresh:
                _write(project, retriever, artifact, questions)
            rankings = read_rankings(artifact.folder, questions)
            quality = [{"retrieval": artifact.folder.name, **row} for row in quality_rows(rankings, questions)]
            if fresh:
                with track(project, "retrieve", artifact, {"k": cfg.depth}) as run:
                    run.metrics(_logged(quality))
            rows += [{n: v.percent() if isinstance(v, Interval) else v for n, v in row.items()} for row in quality]
            notes += _missing_scores(rankings, artifact.folder.name)
    return Summary("Retrieval, % [95 % interval]", rows, "\n".join(dict.fromkeys(notes)))


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


def _missing_scores(rankings: Rankings, name: str) -> list[str]:
    """Return a note if the rankings come without scores, as those of a file may."""
    scores = [hit.score for hits in rankings.hits.values() for hit in hits]
    missing = scores.count(None)
    if not missing:
        return []
    return [
        f"{missing} of {len(scores)} contexts of {name} have no retriever score: weighting.by=retriever and "
        "whatever else needs scores will refuse them."
    ]


def quality_rows(rankings: Rankings, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Return the quality of stored rankings, with intervals.

    Each split has a row of top-k accuracies by answers and, where gold passages are annotated, one of recall@k by these,
    with nDCG@10, MRR and MAP. Questions whose only answer is their own text, as in BEIR, have no answers.
    """
    hits, rows = rankings.hits, []
    for split in dict.fromkeys(question.split for question in questions):
        selected = [question for question in questions if question.split == split]
        undefined = dict.fromkeys(RANK_MEASURES, undefined_interval())
        answered = [question for question in selected if question.answers != (question.text,)]
        if answered:
            flags = [[hit.has_answer for hit in hits[question.question_id]] for question in answered]
            at = {f"@{k}": mean_interval(top_k_accuracy(flags, k)) for k in DEPTHS}
            rows.append({"split": split, "measure": "top-k accuracy", "questions": len(answered), **at, **undefined})
        judged = {q.question_id: q.gold_passage_ids for q in selected if q.gold_passage_ids}
        if judged:
            ranked = {question_id: [hit.passage_id for hit in hits[question_id]] for question_id in judged}
            values = {name: mean_interval(vector) for name, vector in judged_measures(judged, ranked, DEPTHS).items()}
            at = {name.removeprefix("recall"): interval for name, interval in values.items()}
            rows.append({"split": split, "measure": "recall", "questions": len(judged), **at})
    return rows


def _logged(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the defined values by their names in MLflow, such as "test_recall_at_10" and "test_nDCG_at_10"."""
    values = {}
    for row in rows:
        for name, value in row.items():
            if isinstance(value, Interval) and value.n:
                heading = f"{row['measure']}{name}" if name.startswith("@") else name
                values[f"{row['split']}_{heading}".replace(" ", "_").replace("@", "_at_")] = value.mean
    return values


main = entry(retrieve)
if __name__ == "__main__":
    main()
