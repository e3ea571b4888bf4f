"""The corpus that the engine of the role "search" searches, which may be another one than the retriever's."""

from collections.abc import Sequence

from flows.project.artifacts import Project
from flows.project.models import list_trainings
from flows.settings.components import Component
from flows.settings.identity import divide_search_settings
from flows.settings.typed import Settings


def resolve_searched_project(project: Project) -> Project:
    """Return the project of the corpus that is searched: that of `search.corpus` if it is set, else the same project."""
    search = project.settings.search
    if search.corpus is None:
        return project
    return Project(project.settings.replace(corpus=search.corpus, retriever=search.retriever or project.settings.retriever))


def list_projects(settings: Settings) -> list[Project]:
    """Return the project of a configuration and, if searches have a corpus of their own, that of the other corpus."""
    project = Project(settings)
    return [project, resolve_searched_project(project)] if settings.search.corpus is not None else [project]


def list_retrievers(project: Project) -> list[Component]:
    """Return the retrievers whose rankings a configuration needs: that of the contexts and those of trainings."""
    settings = project.settings
    nodes = [settings.retriever.engine]
    nodes += [training.retriever for training in list_trainings(settings)] if settings.reader.tuned else []
    return _remove_equal(project, nodes)


def list_indexed_retrievers(project: Project) -> list[Component]:
    """Return the retrievers whose indexes a configuration needs: also the one that labels questions, if there are labels."""
    labeling = [project.settings.answerable.retriever] if project.needs_labels else []
    return _remove_equal(project, [*labeling, *list_retrievers(project)])


def _remove_equal(project: Project, nodes: Sequence[Component]) -> list[Component]:
    return list({(project.resolve_index(node).key, str(divide_search_settings(node)[1])): node for node in nodes}.values())
