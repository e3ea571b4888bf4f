r"""Rank passages by the retrieval plan of a retriever: by queries that a model writes, or in an
order that a model chooses.

The plan rests on the rankings of the retriever itself, next to which its own are shown. Whatever
reads rankings (k, placement, distractors, `rank_by`, every strategy) then reads these. Calls go
through the ledger.

python -m flows.rank retriever=rank_gpt reader@reranker=openai reranker.base=gpt-4o-mini \
    dry_run=true
python -m flows.rank retriever=hyde rank.limit=50
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from flows.project.artifacts import Artifact, Project
from flows.project.cells import list_trainings_of
from flows.project.elsewhere import print_equivalent
from flows.project.engines import open_engines
from flows.project.ledger import open_ledger
from flows.project.rankings import resolve_planned_rankings, resolve_ranking_engines
from flows.project.runs import build_dry_run_rows, count_models_of, iter_outcomes
from flows.retrieve import compute_quality_rows, select_logged_values
from flows.score import KS
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.hits import hold_parts, list_parts, write_parts, write_rankings
from flows.stages.registry import Stage
from flows.stages.shard_calls import list_ledgers_to_merge, run_question_shard, use_finished_shards
from flows.stages.tracking import track
from flows.tools.summary import Summary, format_intervals
from winnow.artifacts.rankings import Rankings, read_rankings, write_usage
from winnow.artifacts.steps import write_models
from winnow.contexts.build import build_ranked_contexts
from winnow.driver.jobs import Job
from winnow.metrics.comparisons import Comparison, adjust_p_values, compare, format_p
from winnow.metrics.retrieval import top_k_accuracy
from winnow.predictions import RoleUsage
from winnow.protocols import MODEL_ROLES
from winnow.records import Hit, Question, Role
from winnow.retrievers.stored import StoredRankings
from winnow.steps import Outcome
from winnow.sweeps.shards import Shard


def rank(jobs: Sequence[Settings]) -> Summary:
    """Rank the passages of each job, and compare the rankings with the retriever's own."""
    projects = list(map(Project, jobs))
    use_finished_shards(jobs[0], "rank", list(map(resolve_planned_rankings, projects)))
    rows: list[dict[str, Any]] = []
    notes, folders = [], []
    for project in projects:
        artifact = resolve_planned_rankings(project)
        if artifact.folder in folders:
            continue
        is_new = False
        if not artifact.is_finished:
            with hold_parts(artifact.folder / "shards"):
                is_new = not artifact.is_finished  # another process may have written it
                if is_new:
                    print_equivalent(artifact)
                    _write(project, artifact)
        questions = _read_questions(project)
        quality = _compute_quality(project, artifact, questions)
        if is_new:
            with track(
                project,
                "rank",
                artifact,
                {"k": project.settings.depth, "retriever": project.settings.retriever.name},
            ) as run:
                run.log_metrics(
                    select_logged_values([row for row in quality if row["retriever"] != _BEFORE])
                )
        rows += [format_intervals(row) for row in quality]
        notes.append(_describe_comparison(project, artifact, questions))
        folders.append(artifact.folder)
    return Summary(
        "Rankings before and after the plan, % [95 % interval]", rows, "\n".join(notes), folders
    )


_BEFORE = "without the plan"


def _run_shard(jobs: Sequence[Settings], shard: Shard) -> Summary:
    return run_question_shard(
        jobs,
        shard,
        "rank",
        resolve_planned_rankings,
        _read_questions,
        lambda project, questions: list(_run_plans(project, questions)),
    )


def _read_questions(project: Project) -> list[Question]:
    own = project.settings.rank
    return project.read_questions(own.splits, own.limit)


def _write(project: Project, artifact: Artifact) -> None:
    """Run each question's plan, and write the rankings, their cost and the models that replied."""
    questions = _read_questions(project)
    models: Counter[tuple[Role, str]] = Counter()
    hits: dict[str, list[Hit]] = {}
    usage: dict[str, Sequence[RoleUsage]] = {}
    for outcome in count_models_of(_run_plans(project, questions), models):
        hits[str(outcome.tag)], usage[str(outcome.tag)] = outcome.result, outcome.usage
    write_models(artifact.folder, models)
    write_usage(
        artifact.folder,
        {question.question_id: usage[question.question_id] for question in questions},
    )
    rankings = StoredRankings(
        hits, lambda missing, _: f"The plan ranked nothing for question {missing[0]!r}."
    )
    parts = artifact.folder / "shards"
    for former in list_parts(parts):  # of a process that was killed
        former.unlink()
    for _ in write_parts(parts, "rest", rankings, questions, project.settings.depth):
        pass
    write_rankings(project, artifact, list_parts(parts), questions)


def _run_plans(project: Project, questions: Sequence[Question]) -> Iterator[Outcome[list[Hit]]]:
    """Run the plan of each question with the configured engines and ledger."""
    engines = resolve_ranking_engines(project)
    with open_ledger(project.settings) as ledger:
        yield from iter_outcomes(
            open_engines(engines),
            ledger,
            _build_jobs(project, questions),
            len(questions),
            "ranking passages",
        )


def _build_jobs(project: Project, questions: Sequence[Question]) -> Iterator[Job[list[Hit]]]:
    rankings = read_rankings(project.rankings.require(), questions)
    plan = project.settings.retriever.plan.build()
    for question in questions:
        contexts = [
            context for context in build_ranked_contexts(rankings, question) if context.rank
        ]
        yield Job(question.question_id, plan.plan(question, contexts, project.settings.depth))


def _compute_quality(
    project: Project, artifact: Artifact, questions: Sequence[Question]
) -> list[dict[str, Any]]:
    """Return the rows of quality of both rankings, for the same questions."""
    folders = {
        _BEFORE: project.rankings.require(),
        project.settings.retriever.name: artifact.folder,
    }
    return [
        {"retriever": name, **row}
        for name, folder in folders.items()
        for row in compute_quality_rows(
            read_rankings(folder, questions), questions, project.settings.depth
        )
    ]


def _describe_comparison(
    project: Project, artifact: Artifact, questions: Sequence[Question]
) -> str:
    """Describe the paired difference in top-k accuracy, and what the plan cost."""
    former = project.rankings.require()
    answered_indices = [n for n, question in enumerate(questions) if question.answers]
    ks = [k for k in KS if k <= project.settings.depth]
    plan_rankings = read_rankings(artifact.folder, questions)
    hits = [
        [rankings.hits[q.question_id] for q in questions]
        for rankings in (plan_rankings, read_rankings(former, questions))
    ]
    after, before = (
        [
            top_k_accuracy([[hit.has_answer for hit in ranking[n]] for n in answered_indices], k)
            for k in (ks if answered_indices else ())
        ]
        for ranking in hits
    )
    comparisons = [compare(*pair) for pair in zip(after, before, strict=True)]
    adjusted_p_values = adjust_p_values([one.p_value for one in comparisons])
    differences = "; ".join(map(_describe_difference, ks, comparisons, adjusted_p_values))
    num_changed = sum(
        [one.passage_id for one in a] != [one.passage_id for one in b]
        for a, b in zip(*hits, strict=True)
    )
    return (
        f"{artifact.folder.name}: the plan changed the ranking of {num_changed} of "
        f"{len(questions)} "
        "questions. Top-k accuracy with the plan minus without it: "
        f"{differences or 'undefined without accepted answers'}.\n{_describe_cost(plan_rankings)}"
    )


def _describe_cost(rankings: Rankings) -> str:
    """Describe what the models of a plan used, one sentence for each role."""
    by_role: dict[Role, list[RoleUsage]] = {}
    for role_usage in itertools.chain(*rankings.usage.values()):
        by_role.setdefault(role_usage.role, []).append(role_usage)
    return " ".join(
        f"The {role} was called {sum(one.calls for one in role_usage)} times, read "
        f"{sum(one.tokens_in for one in role_usage)} tokens and wrote "
        f"{sum(one.tokens_out for one in role_usage)}; {sum(one.cut for one in role_usage)} "
        "replies were cut "
        f"and {sum(one.empty for one in role_usage)} were empty."
        for role, role_usage in by_role.items()
        if role in MODEL_ROLES
    )


def _describe_difference(k: int, compared: Comparison, adjusted: float) -> str:
    interval = (
        f"{100 * compared.difference:+.1f} [{100 * compared.low:.1f}, {100 * compared.high:.1f}]"
    )
    return f"@{k} {interval}, p = {compared.p_text} ({format_p(adjusted)} by Holm)"


def _dry_run(jobs: Sequence[Settings]) -> Summary:
    """Estimate the calls of every plan; a row leaves out calls that an earlier one counted."""
    projects = list(map(Project, jobs))
    ledgers = list_ledgers_to_merge(jobs[0], list(map(resolve_planned_rankings, projects)))
    rows: list[dict[str, Any]] = []
    counted_keys: set[bytes] = set()
    for project in projects:
        build = partial(_build_jobs, project, _read_questions(project))
        specs = resolve_ranking_engines(project)
        rows += build_dry_run_rows(project.settings, specs, build, counted_keys, ledgers)
    return Summary("Dry run: no call was made", rows)


def _list_needs(settings: Settings) -> list[str]:
    """Return the stages that the plan reads: the retriever's, and the trainings of its models."""
    readers = [
        settings.get_model(role) or settings.reader
        for role in settings.retriever.engines
        if role in MODEL_ROLES
    ]
    is_trained = "estimator" in settings.retriever.engines and settings.estimator.trained
    trainings = {*list_trainings_of(readers, settings), *(["train_joint"] if is_trained else [])}
    return ["corpus", "index", "questions", "retrieve", *sorted(trainings)]


STAGE = Stage(
    rank,
    version=3,
    resolve=lambda project: [resolve_planned_rankings(project)],
    reads=("corpus", "index", "questions", "retrieve", "train_reader", "train_joint"),
    needs=_list_needs,
    settings=("rank", *MODEL_ROLES),
    run_shard=_run_shard,
    shards="calls",
    dry_run=_dry_run,
    seeds="each",
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
