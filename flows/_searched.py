"""The corpus that the engine of the role "search" searches, which may be another one than the retriever's."""

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
    """Return the retrievers whose rankings a configuration needs: those of contexts, labels and trainings."""
    cfg = project.cfg
    nodes = [cfg.answerable.retriever, cfg.retriever.engine]
    nodes += [training.retriever for training in list_trainings(cfg)] if cfg.reader.get("tuned") else []
    return list({(project.resolve_index(node).key, str(divide_search_settings(node)[1])): node for node in nodes}.values())
