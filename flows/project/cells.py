"""Resolves configurations into cell specifications, which `winnow` runs without a configuration.

A cell is one setting of a sweep (a strategy, k and a placement of the contexts); its predictions
are one artifact.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from flows.project.artifacts import Artifact, Project
from flows.project.elsewhere import print_equivalent
from flows.project.engines import resolve_engine_spec
from flows.project.labels import build_labels, describe_settings, name_prompts, remove_seed_label
from flows.project.models import (
    get_closed_book_reader,
    identify_reader_weights,
    is_trained,
    list_readers,
)
from flows.project.prompts import open_prompt
from flows.project.rankings import resolve_ranking_engines, resolve_rankings, resolve_relevance
from flows.settings.door import list_cells
from flows.settings.sections import Reader
from flows.settings.typed import Settings
from winnow.artifacts.tables import read_questions
from winnow.contexts.counterfactual import Counterfactual
from winnow.contexts.distractors import Distractors
from winnow.contexts.placed import PlacementRule
from winnow.errors import ConfigError, MissingArtifactError
from winnow.protocols import Strategy
from winnow.strategies.prompt import Prompt
from winnow.sweeps.searches import SearchRules
from winnow.sweeps.spec import CellSpec, QuestionSelection, list_varying_settings


def resolve_cells(jobs: Sequence[Settings]) -> list[CellSpec]:
    """Resolve the distinct cells of all jobs, labeled with the settings in which they differ."""
    by_key: dict[str, list[CellSpec]] = {}
    for settings in list_cells(jobs):
        spec = resolve_cell(settings)
        by_key.setdefault(spec.key, []).append(spec)
    distinct = [
        remove_seed_label(specs[0]) if len({spec.labels.seed for spec in specs}) > 1 else specs[0]
        for specs in by_key.values()
    ]
    distinct = name_prompts(distinct)
    return [
        replace(
            spec,
            labels=replace(
                spec.labels, setting=", ".join(map("=".join, varying)), varying=tuple(varying)
            ),
        )
        for spec, varying in zip(distinct, list_varying_settings(distinct), strict=True)
    ]


def resolve_cell(settings: Settings) -> CellSpec:
    """Resolve the one cell that a configuration describes."""
    _validate(settings)
    project = Project(settings)
    artifact = resolve_cell_artifact(project)
    uses_relevance = needs_relevance(settings)
    relevance = (
        resolve_relevance(project).require() / "relevance.parquet" if uses_relevance else None
    )
    roles, questions = settings.roles, _select_questions(project)
    return CellSpec(
        key=artifact.key,
        folder=artifact.folder,
        labels=build_labels(settings, project),
        settings=describe_settings(settings),
        questions=questions,
        retrieval=resolve_rankings(project).require(),
        pool=project.rankings.require(),
        relevance=relevance,
        distractors=settings.distractors.rule.build(),
        placement=build_placement(settings, questions.path),
        weighting=settings.weighting.build(),
        processor=settings.context.plan.build() if settings.context.plan else None,
        searches=settings.search.rules.build(),
        strategy=lambda: build_strategy(settings, open_prompt(project, settings.prompt)),
        engines=tuple(resolve_engine_spec(project, role) for role in roles),
        ranking_engines=resolve_ranking_engines(project),
        resolve_engine=partial(resolve_engine_spec, project),
        config=settings.plain,
        identity=artifact.settings,
    )


def resolve_cell_artifact(project: Project) -> Artifact:
    """Return the artifact with the predictions of one cell."""
    settings = project.settings
    relevance = resolve_relevance(project).identity if needs_relevance(settings) else None
    roles = settings.roles
    inputs = {
        "questions": _identify_questions(project),
        "rankings": resolve_rankings(project).identity,
        "rank_by": settings.rank_by,
        "relevance": relevance,
        "weights": identify_reader_weights(project, settings.reader, settings.prompt),
        "reader": settings.reader.engine,
        "engines": {
            role: resolve_engine_spec(project, role).key for role in roles if role != "reader"
        },
        **{
            name: getattr(settings, name)
            for name in ("strategy", "prompt", "decoding", "k", "placement", "weighting")
        },
    }
    if settings.context.plan:
        inputs["context"] = settings.context
    if settings.k and not _keeps_contexts(settings):
        inputs["distractors"] = settings.distractors
    if "search" in roles and (rules := settings.search.rules.build()) != SearchRules():
        inputs["searches"] = {"rules": settings.search.rules}
        inputs |= {"distractors": settings.distractors} if rules.placed else {}
    return project.resolve_artifact("sweep", "predictions", settings.strategy.name, inputs)


def _keeps_contexts(settings: Settings) -> bool:
    """Return whether the contexts come from the rankings, without distractors in their place."""
    return bool(settings.distractors.rule.build() == Distractors())


def resolve_closed_book_artifact(project: Project) -> Artifact:
    """Return the artifact with the answers of the reader without passages."""
    settings = project.settings
    reader = get_closed_book_reader(settings)
    inputs = {
        "questions": project.questions.identity,
        "weights": identify_reader_weights(project, reader, settings.prompt),
        "reader": reader.engine,
        "prompt": settings.prompt,
        "closed_book": {
            name: value for name, value in settings.closed_book.plain.items() if name != "reader"
        },
    }
    return project.resolve_artifact("closed_book", "closed_book", reader.name, inputs)


def require_finished(specs: Sequence[CellSpec]) -> None:
    """Raise MissingArtifactError if a cell is not finished."""
    unfinished_specs = [spec for spec in specs if not spec.is_finished]
    if unfinished_specs:
        raise MissingArtifactError(
            f"{len(unfinished_specs)} of {len(specs)} cells are not finished, such as "
            f"{unfinished_specs[0].folder}. "
            "Run `python -m flows.sweep` with the same settings first.",
            "sweep",
        )


def needs_relevance(settings: Settings) -> bool:
    """Return whether a cell ranks or weights its contexts by the scores of the estimator."""
    return "estimator" in (settings.rank_by, settings.weighting.build().by)


def list_trainings_of(readers: Iterable[Reader], settings: Settings) -> list[str]:
    """Return the stages that train some of these readers."""
    readers = list(readers)
    is_tuned = any(is_trained(settings, reader) and not reader.joint for reader in readers)
    is_joint = any(reader.joint for reader in readers)
    return [
        name
        for name, is_needed in (("train_reader", is_tuned), ("train_joint", is_joint))
        if is_needed
    ]


def list_stages_of_cell(settings: Settings) -> list[str]:
    """Return the stages whose artifacts a cell reads itself."""
    uses_estimator = needs_relevance(settings) or "estimator" in settings.roles
    optional = {
        "rank": bool(settings.retriever.plan),
        "score": needs_relevance(settings),
        "closed_book": bool(settings.sweep.closed_book_filter),
        "train_joint": bool(uses_estimator and settings.estimator.trained),
    }
    trainings = list_trainings_of(list_readers(settings), settings)
    return ["retrieve", *(name for name, is_needed in optional.items() if is_needed), *trainings]


def is_filter_pending(settings: Settings) -> bool:
    """Return whether a dry run counts all questions because the closed-book stage has not run."""
    is_filtered_dry_run = settings.dry_run and settings.sweep.closed_book_filter
    return bool(
        is_filtered_dry_run and not resolve_closed_book_artifact(Project(settings)).is_finished
    )


def print_equivalent_cell(jobs: Sequence[Settings]) -> None:
    """Print a line if the first unfinished cell exists with another precision or runtime."""
    cells = (resolve_cell_artifact(Project(settings)) for settings in list_cells(jobs))
    for artifact in cells:
        if not artifact.is_finished:
            print_equivalent(artifact)
            return


def _validate(settings: Settings) -> None:
    """Check a cell's settings, and that k is at most the number of stored or scored contexts."""
    settings.decoding.build()
    weighted_by = settings.weighting.build().by
    if (
        not settings.k
        and settings.strategy.uses_passages
        and "search" not in settings.strategy.engines
    ):
        raise ConfigError(
            f"k=0: strategy={settings.strategy.name} shows passages. Set k to 1 or more, or take "
            "strategy=closed_book."
        )
    if settings.k > settings.depth:
        raise ConfigError(
            f"k={settings.k} is larger than the stored rankings (depth={settings.depth}). Lower k, "
            "or raise depth."
        )
    is_changed = isinstance(settings.placement.rule.build(), Counterfactual)
    if is_changed and weighted_by != "none":
        raise ConfigError(
            f"weighting.by={weighted_by} weights passages by their scores, and "
            f"placement={settings.placement.name} changes a passage after it was scored. Set "
            "weighting.by=none, or take another placement."
        )
    if is_changed and settings.search.rules.build().placed:
        raise ConfigError(
            f"placement={settings.placement.name} changes passages of the rankings, and "
            "search.rules.placed=true would change those of searches, of which no metric knows. "
            "Set search.rules.placed=false, or take another placement."
        )
    if weighted_by == "estimator":
        check_log_odds(settings, "weighting.by=none")
    if weighted_by != "none" and not _keeps_contexts(settings):
        raise ConfigError(
            f"weighting.by={weighted_by} needs a score of every context, which "
            f"distractors={settings.distractors.name} do not have. Set weighting.by=none or "
            "distractors=retrieved."
        )
    if (
        needs_relevance(settings)
        and settings.score.depth is not None
        and settings.k > settings.score.depth
    ):
        raise ConfigError(
            f"k={settings.k} is larger than the number of contexts that the estimator scores per "
            f"question (score.depth={settings.score.depth}). Lower k, or set score.depth=null "
            "here and for `python -m flows.score`."
        )


def check_log_odds(settings: Settings, instead: str) -> None:
    """Raise ConfigError, with a setting that may be set instead, if the estimator's scores are not
    log-odds.
    """
    if settings.estimator.relevance_scale == "none":
        raise ConfigError(
            f"The scores of estimator={settings.estimator.name} are not log-odds "
            f"(estimator.relevance_scale=none). Choose another estimator, or set {instead}."
        )


def _identify_questions(project: Project) -> dict[str, Any]:
    """Return the inputs of a cell's key that determine which questions it answers."""
    settings = project.settings
    selection = {
        "artifact": project.questions.identity,
        "split": settings.sweep.split,
        "limit": settings.sweep.limit,
    }
    if not settings.sweep.closed_book_filter:
        return selection
    keeps = (
        {}
        if settings.sweep.closed_book_keeps == "unknown"
        else {"keeps": settings.sweep.closed_book_keeps}
    )
    return {**selection, "filter": resolve_closed_book_artifact(project).identity, **keeps}


def _select_questions(project: Project) -> QuestionSelection:
    settings = project.settings
    uses_filter = settings.sweep.closed_book_filter and not is_filter_pending(settings)
    closed_book = (
        resolve_closed_book_artifact(project).require() / "closed_book.parquet"
        if uses_filter
        else None
    )
    own = settings.sweep
    return QuestionSelection(
        project.questions_file, own.split, own.limit, closed_book, own.closed_book_keeps
    )


def build_placement(settings: Settings, questions: Path) -> PlacementRule:
    """Build a cell's placement, with other questions' answers from `questions` if it needs them."""
    rule = settings.placement.rule.build()
    if isinstance(rule, Counterfactual) and not rule.answers:
        return replace(
            rule,
            answers=tuple(
                dict.fromkeys(one.answers[0] for one in read_questions(questions) if one.answers)
            ),
        )
    return rule


def build_strategy(settings: Settings, prompt: Prompt) -> Strategy:
    """Build the strategy of the one cell that a configuration describes."""
    return settings.strategy.plan.build(prompt=prompt, decoding=settings.decoding.build())
