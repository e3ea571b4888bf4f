"""Score the top 100 with the relevance estimator: log-odds, cached, and top-k accuracy before and after reranking.

python -m flows.score
python -m flows.score retriever=dense
python -m flows.train_joint estimator=cross_encoder && python -m flows.score estimator=cross_encoder
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from flows import _models
from flows._artifacts import Artifact, Project
from flows._elsewhere import announce
from flows._engines import drive, estimator_identity, open_estimator, open_ledger
from flows._entry import entry
from flows._summary import Summary
from flows._track import track
from winnow.artifacts import contracts, parquet
from winnow.artifacts.rankings import read_rankings
from winnow.artifacts.tables import read_questions, relevance_rows
from winnow.contexts.build import ranked_contexts
from winnow.driver import Job
from winnow.estimators.engine import EstimatorEngine
from winnow.metrics.comparisons import compare, format_p, holm
from winnow.metrics.intervals import mean_interval
from winnow.metrics.retrieval import top_k_accuracy
from winnow.protocols import engines_for
from winnow.records import Context, Question
from winnow.strategies.relevance import estimate_relevance

KS = (1, 5, 10, 20)


def score(configs: Sequence[DictConfig]) -> Summary:
    """Score for each job and compare the rankings."""
    rows: list[dict[str, Any]] = []
    note = ""
    for cfg in configs:
        project = Project(cfg)
        artifact, retrieval = _models.relevance(project), project.rankings.require()
        splits = cfg.score.splits
        questions = [q for split in splits for q in read_questions(project.questions_file, [split])[: cfg.score.limit]]
        fresh = not artifact.done
        announce(artifact)
        truncated = _write(project, artifact, questions) if fresh else 0
        comparison = _compare(retrieval, artifact.folder / "relevance.parquet", questions)
        if fresh:
            with track(project, "score", artifact, {"k": cfg.depth}) as run:
                run.metrics({"truncated_texts": float(truncated)})
                run.metrics({f"{row['ranking']}_top_{k}": row[f"top-{k}"].mean for row in comparison[:2] for k in KS})
        rows += [{n: v.percent() if hasattr(v, "percent") else v for n, v in row.items()} for row in comparison]
        note = f"{truncated} texts were cut to the encoder's length." if truncated else "" if fresh else "Scored already."
    return Summary(
        "Top-k accuracy (questions whose first k hold an answer) before and after reranking, % [95 % interval]", rows, note
    )


def _write(project: Project, artifact: Artifact, questions: Sequence[Question]) -> int:
    """Score through the driver and return how many texts were cut; pairs in the ledger are not scored again."""
    engine = EstimatorEngine(open_estimator(project), estimator_identity(project))
    rankings = read_rankings(project.rankings.require(), questions)
    depth = project.cfg.score.depth
    contexts = {q.question_id: _within(ranked_contexts(rankings, q), depth) for q in questions}
    jobs = (Job(q.question_id, estimate_relevance(q, contexts[q.question_id])) for q in questions)
    with open_ledger(project.cfg) as ledger:
        outcomes = drive(engines_for(engine), ledger, jobs, len(questions), "scoring questions' contexts")
        log_odds = {outcome.tag: outcome.result for outcome in outcomes}
    rows = (row for q in questions for row in relevance_rows(q, contexts[q.question_id], log_odds[q.question_id]))
    artifact.finish(parquet.write(artifact.folder / "relevance.parquet", contracts.RELEVANCE, rows))
    return engine.estimator.truncated


def _within(contexts: Sequence[Context], depth: int | None) -> list[Context]:
    """Return the first `depth` contexts, and gold passages that were not retrieved."""
    return [context for context in contexts if depth is None or context.rank <= depth]


def _compare(retrieval: Path, relevance: Path, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Return the top-k accuracy of both rankings with p-values: two rows for all questions, then two for the answerable."""
    rankings = read_rankings(retrieval, questions, relevance)
    flags = {
        "retriever": [[c.has_answer for c in ranked_contexts(rankings, q) if c.rank] for q in questions],
        "estimator": [[c.has_answer for c in ranked_contexts(rankings, q, "estimator") if c.rank] for q in questions],
    }
    rows = _comparison_rows(flags, f"all {len(questions)}")
    answerable = [n for n, question in enumerate(questions) if question.answerable]
    if 0 < len(answerable) < len(questions):
        subset = {name: [ranked[n] for n in answerable] for name, ranked in flags.items()}
        rows += _comparison_rows(subset, f"answerable {len(answerable)}")
    return rows


def _comparison_rows(flags: Mapping[str, Sequence[Sequence[bool]]], selection: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"ranking": name, "questions": selection, **{f"top-{k}": mean_interval(top_k_accuracy(ranked, k)) for k in KS}}
        for name, ranked in flags.items()
    ]
    p_values = [compare(top_k_accuracy(flags["estimator"], k), top_k_accuracy(flags["retriever"], k)).p_value for k in KS]
    for k, p_value, adjusted in zip(KS, p_values, holm(p_values), strict=True):
        rows[0][f"p@{k} (Holm)"], rows[1][f"p@{k} (Holm)"] = "", f"{format_p(p_value)} ({format_p(adjusted)})"
    return rows


main = entry(score, seeds="each")
if __name__ == "__main__":
    main()
