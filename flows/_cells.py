"""Resolves configurations into cell specifications, which `winnow` runs without reading a configuration.

A cell is one setting of a sweep (a strategy, k and a placement of the contexts); its predictions are one artifact.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from flows import _models
from flows._artifacts import Artifact, Project
from flows._build import build
from flows._conf import list_options, load_option
from flows._elsewhere import print_equivalent
from flows._engines import resolve_engine_spec
from flows._grid import expand_grid
from flows._prompts import open_prompt
from flows._schema import check_settings
from winnow.contexts.distractors import Distractors
from winnow.errors import ConfigError, MissingArtifactError
from winnow.protocols import Strategy
from winnow.sweeps.labels import SAMPLES, CellLabels
from winnow.sweeps.spec import CellSpec, QuestionSelection, list_varying_settings


def resolve_cells(configs: Sequence[DictConfig]) -> list[CellSpec]:
    """Resolve the distinct cells of all jobs. Their labels name the settings in which the cells differ."""
    by_key: dict[str, list[CellSpec]] = {}
    for cfg in expand_grid(configs):
        spec = resolve_cell(cfg)
        by_key.setdefault(spec.key, []).append(spec)
    distinct = [
        _remove_seed_label(specs[0]) if len({spec.labels.seed for spec in specs}) > 1 else specs[0]
        for specs in by_key.values()
    ]
    distinct = _name_prompts(distinct)
    return [
        replace(spec, labels=replace(spec.labels, setting=", ".join(map("=".join, varying)), varying=tuple(varying)))
        for spec, varying in zip(distinct, list_varying_settings(distinct), strict=True)
    ]


def _remove_seed_label(spec: CellSpec) -> CellSpec:
    """Return a cell without the label of its training seed, for cells that use no trained model."""
    return replace(spec, labels=replace(spec.labels, seed=""))


def _name_prompts(specs: Sequence[CellSpec]) -> list[CellSpec]:
    """Add the names of the prompts in conf/prompt to the settings of cells whose prompts differ.

    A prompt has no name of its own, so that a cell would be described by all its templates. A prompt that is not an option
    has no name; its cells are described by what differs.
    """
    prompts = {repr(spec.config["prompt"]) for spec in specs}
    if len(prompts) < 2:
        return list(specs)
    names = {repr(load_option("prompt", name)): name for name in list_options("prompt")}
    return [
        replace(spec, settings={**spec.settings, "prompt": names.get(repr(spec.config["prompt"]), "own")}) for spec in specs
    ]


def resolve_cell(cfg: DictConfig) -> CellSpec:
    """Resolve the one cell that a configuration describes."""
    _validate(cfg)
    project = Project(cfg)
    artifact = resolve_cell_artifact(project)
    uses_relevance = needs_relevance(cfg)
    relevance = _models.resolve_relevance(project).require() / "relevance.parquet" if uses_relevance else None
    roles = cfg.strategy.get("engines", ["reader"])
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    return CellSpec(
        key=artifact.key,
        folder=artifact.folder,
        labels=build_labels(cfg, project),
        settings=_describe_settings(cfg),
        questions=_select_questions(project),
        retrieval=project.rankings.require(),
        relevance=relevance,
        distractors=build(cfg.distractors.rule),
        placement=build(cfg.placement.rule),
        weighting=build(cfg.weighting),
        strategy=lambda: _build_strategy(project),
        engines=tuple(resolve_engine_spec(project, role) for role in roles),
        config=plain,
        identity=artifact.settings,
    )


def resolve_cell_artifact(project: Project) -> Artifact:
    """Return the artifact with the predictions of one cell."""
    cfg = project.cfg
    relevance = _models.resolve_relevance(project).identity if needs_relevance(cfg) else None
    roles = cfg.strategy.get("engines", ())
    inputs = {
        "questions": _identify_questions(project),
        "rankings": project.rankings.identity,
        "rank_by": cfg.rank_by,
        "relevance": relevance,
        "weights": _models.identify_reader_weights(project, cfg.reader, cfg.prompt),
        "reader": cfg.reader.engine,
        "engines": {role: resolve_engine_spec(project, role).key for role in roles if role != "reader"},
        **{name: cfg[name] for name in ("strategy", "prompt", "decoding", "k", "placement", "weighting")},
    }
    if cfg.k and not _keeps_contexts(cfg):
        inputs["distractors"] = cfg.distractors
    return project.resolve_artifact("sweep", "predictions", cfg.strategy.name, inputs)


def _keeps_contexts(cfg: DictConfig) -> bool:
    """Return whether the contexts are those of the rankings, without distractors in their place."""
    return bool(build(cfg.distractors.rule) == Distractors())


def resolve_closed_book_artifact(project: Project) -> Artifact:
    """Return the artifact with the answers of the reader without passages."""
    cfg = project.cfg
    reader = _models.get_closed_book_reader(cfg)
    inputs = {
        "questions": project.questions.identity,
        "weights": _models.identify_reader_weights(project, reader, cfg.prompt),
        "reader": reader.engine,
        "prompt": cfg.prompt,
        "closed_book": {name: value for name, value in cfg.closed_book.items() if name != "reader"},
    }
    return project.resolve_artifact("closed_book", "closed_book", reader.name, inputs)


def require_finished(specs: Sequence[CellSpec]) -> None:
    """Raise MissingArtifactError if a cell is not finished."""
    missing = [spec for spec in specs if not spec.is_finished]
    if missing:
        raise MissingArtifactError(
            f"{len(missing)} of {len(specs)} cells are not finished, such as {missing[0].folder}. Run `python -m flows.sweep` "
            "with the same settings first.",
            "sweep",
        )


def needs_relevance(cfg: DictConfig) -> bool:
    """Return whether a cell ranks or weights its contexts by the scores of the estimator."""
    return "estimator" in (cfg.rank_by, cfg.weighting.by)


def list_trainings_of(readers: Iterable[DictConfig], cfg: DictConfig) -> list[str]:
    """Return the stages that train some of these readers."""
    readers = list(readers)
    is_tuned = any(_models.is_trained(cfg, reader) and not reader.get("joint") for reader in readers)
    is_joint = any(reader.get("joint") for reader in readers)
    return [name for name, is_needed in (("train_reader", is_tuned), ("train_joint", is_joint)) if is_needed]


def list_stages_of_cell(cfg: DictConfig) -> list[str]:
    """Return the stages whose artifacts a cell reads itself."""
    uses_estimator = needs_relevance(cfg) or "estimator" in cfg.strategy.get("engines", ())
    optional = {
        "score": needs_relevance(cfg),
        "closed_book": bool(cfg.sweep.closed_book_filter),
        "train_joint": bool(uses_estimator and cfg.estimator.get("trained")),
    }
    trainings = list_trainings_of(_models.list_readers(cfg), cfg)
    return ["retrieve", *(name for name, is_needed in optional.items() if is_needed), *trainings]


def is_filter_pending(cfg: DictConfig) -> bool:
    """Return whether this is a dry run that has to count every question, because the closed-book stage has not run yet."""
    is_filtered_dry_run = cfg.dry_run and cfg.sweep.closed_book_filter
    return bool(is_filtered_dry_run and not resolve_closed_book_artifact(Project(cfg)).is_finished)


def print_equivalent_cell(configs: Sequence[DictConfig]) -> None:
    """Check the first unfinished cell, and print a line if it exists already with another precision or runtime."""
    cells = (resolve_cell_artifact(Project(cfg)) for cfg in expand_grid(configs))
    for artifact in cells:
        if not artifact.is_finished:
            print_equivalent(artifact)
            return


def _validate(cfg: DictConfig) -> None:
    """Check the settings of a cell, and that k does not exceed the number of stored or scored contexts."""
    check_settings(cfg)
    build(cfg.decoding)
    if not cfg.k and cfg.strategy.get("uses_passages", True):
        raise ConfigError(
            f"k=0: strategy={cfg.strategy.name} shows passages. Set k to 1 or more, or take strategy=closed_book."
        )
    if cfg.k > cfg.depth:
        raise ConfigError(f"k={cfg.k} is larger than the stored rankings (depth={cfg.depth}). Lower k, or raise depth.")
    if cfg.weighting.by != "none" and not _keeps_contexts(cfg):
        raise ConfigError(
            f"weighting.by={cfg.weighting.by} needs a score of every context, which distractors={cfg.distractors.name} do not "
            "have. Set weighting.by=none or distractors=retrieved."
        )
    if needs_relevance(cfg) and cfg.score.depth is not None and cfg.k > cfg.score.depth:
        raise ConfigError(
            f"k={cfg.k} is larger than the number of contexts that the estimator scores per question "
            f"(score.depth={cfg.score.depth}). Lower k, or set "
            "score.depth=null here and for `python -m flows.score`."
        )


def _identify_questions(project: Project) -> dict[str, Any]:
    """Return the inputs of a cell's key that determine which questions it answers."""
    cfg = project.cfg
    selection = {"artifact": project.questions.identity, "split": cfg.sweep.split, "limit": cfg.sweep.limit}
    return (
        {**selection, "filter": resolve_closed_book_artifact(project).identity} if cfg.sweep.closed_book_filter else selection
    )


def _select_questions(project: Project) -> QuestionSelection:
    cfg = project.cfg
    uses_filter = cfg.sweep.closed_book_filter and not is_filter_pending(cfg)
    closed_book = resolve_closed_book_artifact(project).require() / "closed_book.parquet" if uses_filter else None
    return QuestionSelection(project.questions_file, cfg.sweep.split, cfg.sweep.limit, closed_book)


def _build_strategy(project: Project) -> Strategy:
    cfg = project.cfg
    strategy: Strategy = build(cfg.strategy.plan, prompt=open_prompt(project, cfg.prompt), decoding=build(cfg.decoding))
    return strategy


def build_labels(cfg: DictConfig, project: Project) -> CellLabels:
    """Return the labels of the one cell that a configuration describes."""
    order, share = cfg.placement.rule.get("order"), cfg.placement.rule.get("share")
    gold = f"{cfg.placement.name}_{order}" if isinstance(order, int) else cfg.placement.name
    if order == "shuffled" and not gold.endswith("shuffled"):
        gold = "shuffled" if cfg.placement.rule.get("gold") == "insert" else f"{gold}_shuffled"
    gold = gold if share is None else f"{gold}_{share:g}"
    return CellLabels(
        strategy=cfg.strategy.name,
        k=int(cfg.k),
        gold=gold,
        samples=int(cfg.decoding.samples),
        rank_by=str(cfg.rank_by),
        weight_by=str(cfg.weighting.by),
        questions="/".join(map(str, (project.questions.folder.name, cfg.sweep.split, *_name_selection(cfg)))),
        seed=", ".join(str(seed) for seed in cfg.get("seeds") or ()),
    )


def _name_selection(cfg: DictConfig) -> tuple[str, str]:
    """Return the limit on the questions and the filter by which they are selected."""
    limit = "none" if cfg.sweep.limit is None else str(cfg.sweep.limit)
    return limit, "closed book" if cfg.sweep.closed_book_filter else "none"


def _describe_settings(cfg: DictConfig) -> dict[str, str]:
    """Return the settings that the tables show as text if cells differ in them."""
    decoding = cfg.decoding
    sampled = f"T={decoding.temperature}" if decoding.temperature > 0 else "greedy"
    ranking, weighting = (
        f"{by} {cfg.estimator.name}" if by == "estimator" else str(by) for by in (cfg.rank_by, cfg.weighting.by)
    )
    limit, question_filter = _name_selection(cfg)
    return {
        "dataset": cfg.dataset.name,
        "split": cfg.sweep.split,
        "limit": limit,
        "filter": question_filter,
        "retriever": cfg.retriever.name,
        "distractors": cfg.distractors.name,
        "ranked by": ranking,
        "weighted by": weighting,
        "reader": cfg.reader.name,
        "training": cfg.training.name if cfg.reader.tuned else "none",
        "decoding": sampled,
        SAMPLES: str(decoding.samples),
    }
