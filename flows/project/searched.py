"""Search engines: the retriever, and the role "search", which may use another corpus or the web."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from flows.project.artifacts import Project
from flows.project.models import is_trained, list_trainings
from flows.settings.components import NOTHING, Component
from flows.settings.identity import divide_search_settings
from flows.settings.typed import Settings
from winnow import protocols
from winnow.artifacts.provenance import compute_key
from winnow.artifacts.rankings import read_rankings
from winnow.artifacts.tables import read_passages, read_questions
from winnow.errors import ConfigError
from winnow.protocols import Engine
from winnow.records import Passage, Question, Role
from winnow.searchers.local import LocalSearch
from winnow.searchers.web.identity import name_web_search
from winnow.sweeps.spec import EngineSpec

_RETRIEVER = Component[Engine]({"_target_": f"{LocalSearch.__module__}.{LocalSearch.__name__}"})
"""The engine of search=local, as which the retriever serves the role "corpus"."""


def resolve_searched_project(project: Project) -> Project:
    """Return the project of `search.corpus` if it is set, else the same project."""
    search = project.settings.search
    if search.corpus is None:
        return project
    return Project(
        project.settings.replace(
            corpus=search.corpus, retriever=search.retriever or project.settings.retriever
        )
    )


def list_projects(settings: Settings) -> list[Project]:
    """Return the project of the settings, and of the search corpus if searches have their own."""
    project = Project(settings)
    return (
        [project, resolve_searched_project(project)]
        if settings.search.corpus is not None
        else [project]
    )


def list_retrievers(project: Project) -> list[Component[protocols.Retriever]]:
    """Return the retrievers whose rankings are needed: for the contexts and for trainings."""
    settings = project.settings
    nodes = [settings.retriever.engine]
    if is_trained(settings, settings.reader):
        nodes += [training.retriever for training in list_trainings(settings)]
    return _remove_equal(project, nodes)


def list_indexed_retrievers(project: Project) -> list[Component[protocols.Retriever]]:
    """Return the retrievers whose indexes are needed, including the labeling one if it is used."""
    labeling = [project.settings.answerable.retriever] if project.needs_labels else []
    return _remove_equal(project, [*labeling, *list_retrievers(project)])


def resolve_search_spec(project: Project) -> EngineSpec:
    """Resolve how to open the engine of the role "search": over a corpus index or the web."""
    search = project.settings.search
    searches_rankings = (
        issubclass(search.engine.component_class, LocalSearch) and search.corpus is None
    )
    if search.rules.build().placed and not searches_rankings:
        raise ConfigError(
            f"search={search.name} search.rules.placed=true: gold passages are known by their ids "
            "in the corpus of the rankings, which is not searched here. Use search=local, or "
            "search.rules.placed=false."
        )
    if search.damage.get("how") == "poisoned" and search.rules.build().placed:
        raise ConfigError(
            "search.rules.placed=true would insert the true gold passage next to the poisoned one, "
            "which search.damage.how=poisoned finds in its place. Set one of them otherwise."
        )
    if issubclass(search.engine.component_class, LocalSearch):
        return _resolve_local_spec(
            project, resolve_searched_project(project), "search", search.name, search.engine
        )
    if search.damage:
        raise ConfigError(
            f"search={search.name}: search.damage damages the corpus of the rankings, which is not "
            "searched here."
        )
    engine_settings = project.pinned.identify_settings(search.engine)
    identity = name_web_search(search.name, engine_settings["at"], compute_key(engine_settings))
    return EngineSpec(
        "search", identity, lambda check: _open_web_search(search.engine, identity, check=check)
    )


def resolve_corpus_spec(project: Project) -> EngineSpec:
    """Resolve how to open the retriever as a search engine, regardless of the role "search"."""
    return _resolve_local_spec(project, project, "corpus", "local", _RETRIEVER)


def _resolve_local_spec(
    project: Project, searched: Project, role: Role, name: str, node: Component[Engine]
) -> EngineSpec:
    """Resolve how to open an engine that searches the corpus of a project with its retriever."""
    _check_searchable(searched.settings)
    index, corpus = searched.resolve_index(), searched.corpus
    _, searched_with = divide_search_settings(searched.settings.retriever.engine)
    # Equal ids in two corpora are two passages; those of another corpus than that of the rankings
    # have its name before them.
    prefix = "" if corpus.key == project.corpus.key else f"{searched.settings.corpus.name}/"
    engine_settings = project.pinned.identify_settings(node)
    others = filter(None, [searched_with, prefix])
    identity = f"{name}@{compute_key(index.identity, engine_settings, *others)}"

    damage = project.settings.search.damage if role == "search" else NOTHING
    if damage and searched is not project:
        raise ConfigError(
            f"search={name}: search.damage damages the corpus of the rankings, and search.corpus "
            "names another one. Leave out one of them."
        )
    if damage:
        inputs = (
            project.rankings.identity,
            project.settings.sweep.split,
            project.pinned.identify_settings(damage),
        )
        identity = f"{name}@{compute_key(identity, inputs)}"

    def open_engine(
        check: bool,  # noqa: ARG001 (an index is opened before the first search)
    ) -> Engine:
        @cache
        def read() -> dict[str, Passage]:
            passages = {
                passage.passage_id: passage
                for passage in read_passages(corpus.require() / "passages.parquet")
            }
            return (
                {
                    id_: replace(passage, passage_id=prefix + id_)
                    for id_, passage in passages.items()
                }
                if prefix
                else passages
            )

        retriever = searched.settings.retriever.engine
        engine = node.build(
            searcher=lambda: retriever.build().open(index.require()),
            passages=read,
            identity=identity,
            changed=(lambda: _change_passages(project, read())) if damage else None,
        )
        return engine

    return EngineSpec(role, identity, open_engine)


def _check_searchable(settings: Settings) -> None:
    """Raise ConfigError if a retriever, or a member of one, finds rankings by questions."""
    component = settings.retriever.engine.find_declaring("needs_questions")
    if component is not None:
        raise ConfigError(
            f"retriever={settings.retriever.name} finds rankings by questions "
            f"({component.target}), and cannot be searched with queries. Search another index "
            "(search.corpus and search.retriever, as conf/search/second_half.yaml sets them) or "
            "the web."
        )


def _change_passages(
    project: Project, passages: Mapping[str, Passage]
) -> dict[str, Passage | None]:
    """Return what the damaged passages become, by their ids.

    The relevant passages of a question are its annotated ones, and those of its ranking that
    contain an answer.
    """
    questions = read_questions(project.questions_file, [project.settings.sweep.split])
    rankings = read_rankings(project.rankings.require(), questions)
    relevant: dict[str, list[Question]] = {}
    for question in questions:
        answering = [
            hit.passage_id for hit in rankings.hits[question.question_id] if hit.has_answer
        ]
        for passage_id in dict.fromkeys([*question.gold_passage_ids, *answering]):
            relevant.setdefault(passage_id, []).append(question)
    damage = project.settings.search.damage.build()
    return damage.change(relevant, passages, questions)


def _open_web_search(node: Component[Engine], identity: str, *, check: bool) -> Engine:
    engine = node.build(identity=identity)
    if check:
        engine.check()
    return engine


def _remove_equal(
    project: Project, nodes: Sequence[Component[protocols.Retriever]]
) -> list[Component[protocols.Retriever]]:
    return list(
        {
            (project.resolve_index(node).key, str(divide_search_settings(node)[1])): node
            for node in nodes
        }.values()
    )
