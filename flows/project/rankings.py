"""Resolves the rankings that a configuration uses, and the estimator's scores of their contexts."""

from flows.project.artifacts import Artifact, Project
from flows.project.engines import resolve_engine_spec
from flows.project.models import identify_estimator_weights
from winnow.errors import ConfigError
from winnow.sweeps.spec import EngineSpec


def resolve_rankings(project: Project) -> Artifact:
    """Return the rankings of the retriever's plan if it has one, else the retriever's own rankings.

    Trainings and demonstrations use the rankings of the retriever itself (`Project.rankings`), on
    which a plan rests too.
    """
    return (
        resolve_planned_rankings(project) if project.settings.retriever.plan else project.rankings
    )


def resolve_planned_rankings(project: Project) -> Artifact:
    """Return the rankings of the retriever's plan; raise ConfigError if it has no plan."""
    retriever = project.settings.retriever
    if not retriever.plan:
        raise ConfigError(
            f"retriever={retriever.name} has no plan, so that there is nothing to rank. Choose one "
            "that has, such as retriever=hyde or rank_gpt, or run `python -m flows.retrieve`."
        )
    inputs = {
        "rankings": project.rankings.identity,
        "plan": retriever.plan,
        "engines": {spec.role: spec.key for spec in resolve_ranking_engines(project)},
        "rank": project.settings.rank,
    }
    return project.resolve_artifact(
        "rank", "retrieval", f"{project.settings.dataset.name}-{retriever.name}", inputs
    )


def resolve_ranking_engines(project: Project) -> tuple[EngineSpec, ...]:
    """Resolve how to open the engines of the retriever's plan; () for a retriever without one."""
    return tuple(resolve_engine_spec(project, role) for role in project.settings.retriever.engines)


def resolve_relevance(project: Project) -> Artifact:
    """Return the artifact with the estimator's log-odds for the contexts of the rankings."""
    settings = project.settings
    inputs = {
        "rankings": resolve_rankings(project).identity,
        "estimator": settings.estimator.engine,
        "weights": identify_estimator_weights(project),
        "score": settings.score,
    }
    return project.resolve_artifact("score", "relevance", settings.estimator.name, inputs)
