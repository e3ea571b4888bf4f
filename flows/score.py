"""Score the retrieved contexts with the relevance estimator, and compare top-k accuracy before and
after reranking.

The scores are log-odds that a context is relevant; they are stored in the ledger.

python -m flows.score
python -m flows.score retriever=dense
python -m flows.train_joint estimator=cross_encoder && python -m flows.score estimator=cross_encoder
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.project.artifacts import Artifact, Project
from flows.project.elsewhere import print_equivalent
from flows.project.engines import compute_estimator_identity, open_estimator
from flows.project.ledger import open_ledger
from flows.project.rankings import resolve_rankings, resolve_relevance
from flows.project.runs import iter_outcomes
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.stages.shard_calls import run_question_shard, use_finished_shards
from flows.stages.tracking import track
from flows.tools.summary import Summary, format_intervals
from winnow.artifacts import contracts, parquet
from winnow.artifacts.rankings import read_rankings
from winnow.artifacts.tables import build_relevance_rows
from winnow.contexts.build import build_ranked_contexts
from winnow.driver.jobs import Job
from winnow.estimators.engine import EstimatorEngine
from winnow.metrics.comparisons import adjust_p_values, compare, format_p
from winnow.metrics.intervals import compute_mean_interval
from winnow.metrics.retrieval import top_k_accuracy
from winnow.protocols import build_engine_map
from winnow.records import Context, Question
from winnow.strategies.relevance import estimate_relevance
from winnow.sweeps.shards import Shard

KS = (1, 5, 10, 20)
"""Values of k at which the rankings are compared."""


def score(jobs: Sequence[Settings]) -> Summary:
    """Score the contexts of each job, and compare the estimator's ranking with the retriever's."""
    use_finished_shards(
        jobs[0], "score", [resolve_relevance(project) for project in map(Project, jobs)]
    )
    rows: list[dict[str, Any]] = []
    folders: list[Path] = []
    notes: list[str] = []
    for settings in jobs:
        project = Project(settings)
        artifact, retrieval = resolve_relevance(project), resolve_rankings(project).require()
        questions = _read_questions(project)
        is_new = not artifact.is_finished
        print_equivalent(artifact)
        num_truncated = _write_scores(project, artifact, questions) if is_new else 0
        ks = [k for k in KS if k <= settings.depth]
        comparison = _compare(retrieval, artifact.folder / "relevance.parquet", questions, ks)
        if is_new:
            with track(project, "score", artifact, {"k": settings.depth}) as run:
                run.log_metrics({"truncated_texts_of_this_run": float(num_truncated)})
                run.log_metrics(
                    {
                        f"{row['ranking']}_top_{k}": row[f"top-{k}"].mean
                        for row in comparison[:2]
                        for k in ks
                    }
                )
        folders.append(artifact.folder)
        rows += [format_intervals(row) for row in comparison]
        if num_truncated:
            notes.append(
                f"{artifact.folder.name}: {num_truncated} of the texts that this run scored were "
                "truncated to the estimator's maximum length; scores of earlier runs are in the "
                "ledger."
            )
        elif not is_new:
            notes.append(f"{artifact.folder.name}: the contexts were scored already.")
        if not comparison:
            notes.append(
                f"{artifact.folder.name}: undefined, because none of the {len(questions)} "
                "questions has an accepted answer."
            )
        if len(comparison) > 2:
            notes.append(
                f"{artifact.folder.name}: answerable questions have their answer in the first "
                f"{settings.answerable.depth} passages of answerable.retriever, which favors that "
                "retriever's own ranking there."
            )
    title = (
        "Top-k accuracy (questions whose first k hold an answer) before and after reranking, % [95 "
        "% interval]"
    )
    return Summary(title, rows, "\n".join(dict.fromkeys(notes)), folders)


def _run_shard(jobs: Sequence[Settings], shard: Shard) -> Summary:
    return run_question_shard(
        jobs,
        shard,
        "score",
        resolve_relevance,
        _read_questions,
        lambda project, questions: _estimate(
            project, questions, _read_contexts(project, questions)
        ),
    )


def _read_questions(project: Project) -> list[Question]:
    own = project.settings.score
    return project.read_questions(own.splits, own.limit)


def _read_contexts(project: Project, questions: Sequence[Question]) -> dict[str, list[Context]]:
    """Return the contexts to score, by question id."""
    rankings = read_rankings(resolve_rankings(project).require(), questions)
    depth = project.settings.score.depth
    return {
        q.question_id: _select_top(build_ranked_contexts(rankings, q), depth) for q in questions
    }


def _write_scores(project: Project, artifact: Artifact, questions: Sequence[Question]) -> int:
    """Score the contexts that are not in the ledger, and return the number of truncated texts."""
    contexts = _read_contexts(project, questions)
    log_odds, num_truncated = _estimate(project, questions, contexts)
    rows = (
        row
        for q in questions
        for row in build_relevance_rows(q, contexts[q.question_id], log_odds[q.question_id])
    )
    artifact.finish(parquet.write(artifact.folder / "relevance.parquet", contracts.RELEVANCE, rows))
    return num_truncated


def _estimate(
    project: Project, questions: Sequence[Question], contexts: Mapping[str, Sequence[Context]]
) -> tuple[dict[Any, tuple[float, ...]], int]:
    """Return the contexts' log-odds by question id, and how many texts this run truncated."""
    engine = EstimatorEngine(open_estimator(project), compute_estimator_identity(project))
    jobs = (Job(q.question_id, estimate_relevance(q, contexts[q.question_id])) for q in questions)
    with open_ledger(project.settings) as ledger:
        outcomes = iter_outcomes(
            build_engine_map(engine),
            ledger,
            jobs,
            len(questions),
            "scoring questions' contexts",
        )
        return {outcome.tag: outcome.result for outcome in outcomes}, engine.estimator.truncated


def _select_top(contexts: Sequence[Context], depth: int | None) -> list[Context]:
    """Return the top `depth` contexts (all if None) and the unretrieved gold passages (rank 0)."""
    return [context for context in contexts if depth is None or context.rank <= depth]


def _compare(
    retrieval: Path, relevance: Path, questions: Sequence[Question], ks: Sequence[int]
) -> list[dict[str, Any]]:
    """Return two rows with the top-k accuracies of both rankings for all questions with an accepted
    answer, then two for the answerable ones.
    """
    questions = [question for question in questions if question.answers]
    if not questions:
        return []
    rankings = read_rankings(retrieval, questions, relevance)
    contains_answer = {
        "retriever": [
            [c.has_answer for c in build_ranked_contexts(rankings, q) if c.rank] for q in questions
        ],
        "estimator": [
            [c.has_answer for c in build_ranked_contexts(rankings, q, "estimator") if c.rank]
            for q in questions
        ],
    }
    rows = _build_comparison_rows(contains_answer, f"all {len(questions)}", ks)
    answerable = [n for n, question in enumerate(questions) if question.answerable]
    if 0 < len(answerable) < len(questions):
        subset = {
            name: [answer_flags[n] for n in answerable]
            for name, answer_flags in contains_answer.items()
        }
        rows += _build_comparison_rows(subset, f"answerable {len(answerable)}", ks)
    return rows


def _build_comparison_rows(
    contains_answer: Mapping[str, Sequence[Sequence[bool]]], selection: str, ks: Sequence[int]
) -> list[dict[str, Any]]:
    """Compare two rankings by top-k accuracy, with p-values and Holm-adjusted p-values.

    Args:
        contains_answer: For each ranking and question, whether the context at each rank contains an
            answer.
        selection: Description of the questions.
        ks: Values of k.
    """
    accuracies = {
        name: {k: top_k_accuracy(answer_flags, k) for k in ks}
        for name, answer_flags in contains_answer.items()
    }
    rows: list[dict[str, Any]] = [
        {
            "ranking": name,
            "questions": selection,
            **{f"top-{k}": compute_mean_interval(values) for k, values in by_k.items()},
        }
        for name, by_k in accuracies.items()
    ]
    p_values = [compare(accuracies["estimator"][k], accuracies["retriever"][k]).p_value for k in ks]
    for k, p_value, adjusted_p_value in zip(ks, p_values, adjust_p_values(p_values), strict=True):
        rows[0][f"p@{k} (Holm)"], rows[1][f"p@{k} (Holm)"] = (
            "",
            f"{format_p(p_value)} ({format_p(adjusted_p_value)})",
        )
    return rows


def _list_needs(settings: Settings) -> list[str]:
    """Return the stages whose artifacts are read: also the plan of the retriever, and the training
    of the estimator.
    """
    optional = {"rank": bool(settings.retriever.plan), "train_joint": settings.estimator.trained}
    return ["acquire", "retrieve", *(name for name, is_needed in optional.items() if is_needed)]


_SETTINGS = (
    "seeds", "estimator", "score", "joint", "reader", "prompt", "decoding", "training", "method",
    "rank_by", "weighting", "grid",  # which decide whether a cell reads the scores
)  # fmt: skip
STAGE = Stage(
    score,
    version=1,
    resolve=lambda project: [resolve_relevance(project)],
    reads=("acquire", "retrieve", "rank", "train_joint"),
    needs=_list_needs,
    settings=_SETTINGS,
    run_shard=_run_shard,
    shards="calls",
    seeds="each",
    is_optional=True,
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
