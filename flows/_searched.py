"""The corpus that the engine of the role "search" searches, which may be another one than the retriever's."""

from collections.abc import Sequence

from omegaconf import DictConfig

from flows._artifacts import Project
from flows._conf import copy_unresolved
from flows._identity import divide_search_settings
from flows._models import list_trainings


def resolve_searched_project(project: Project) -> Project:
    """Return the project of the corpus that is searched: that of `search.corpus` if it is set, else the same project."""
    if "corpus" not in project.cfg.search:
        return project
    cfg = copy_unresolved(project.cfg)
    cfg.corpus, cfg.retriever = cfg.search.corpus, cfg.search.retriever
    return Project(cfg)


def list_projects(cfg: DictConfig) -> list[Project]:
    """Return the project of a configuration and, if searches have a corpus of their own, that of the other corpus."""
    project = Project(cfg)
    return [project, resolve_searched_project(project)] if "corpus" in cfg.search else [project]


def list_retrievers(project: Project) -> list[DictConfig]:
    """Return the retrievers whose rankings a configuration needs: that of the contexts and those of trainings."""
    cfg = project.cfg
    nodes = [cfg.retriever.engine]
    nodes += [training.retriever for training in list_trainings(cfg)] if cfg.reader.get("tuned") else []
    return _remove_equal(project, nodes)


def list_indexed_retrievers(project: Project) -> list[DictConfig]:
    """Return the retrievers whose indexes a configuration needs: also the one that labels questions, if there are labels."""
    labelling = [project.cfg.answerable.retriever] if project.needs_labels else []
    return _remove_equal(project, [*labelling, *list_retrievers(project)])


def _remove_equal(project: Project, nodes: Sequence[DictConfig]) -> list[DictConfig]:
    return list({(project.resolve_index(node).key, str(divide_search_settings(node)[1])): node for node in nodes}.values())
