"""Resolves configurations into cell specifications, once and at the edge; nothing behind this takes a configuration."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from flows import _models
from flows._artifacts import Artifact, Project
from flows._build import build
from flows._elsewhere import announce
from flows._engines import engine_spec
from flows._grid import expand
from flows._prompts import open_prompt
from flows._schema import check_settings
from winnow.errors import ConfigError
from winnow.protocols import Strategy
from winnow.sweeps.labels import CellLabels
from winnow.sweeps.spec import CellSpec, QuestionSelection, varying_settings


def resolve_cells(configs: Sequence[DictConfig]) -> list[CellSpec]:
    """Return the specification of every cell of all jobs; the labels name the settings in which cells differ."""
    by_key: dict[str, list[CellSpec]] = {}
    for cfg in expand(configs):
        spec = resolve_cell(cfg)
        by_key.setdefault(spec.key, []).append(spec)
    distinct = [
        _without_seed(group[0]) if len({spec.labels.seed for spec in group}) > 1 else group[0] for group in by_key.values()
    ]
    settings = varying_settings(distinct)
    return [
        replace(spec, labels=replace(spec.labels, setting=setting)) for spec, setting in zip(distinct, settings, strict=True)
    ]


def _without_seed(spec: CellSpec) -> CellSpec:
    """Return a cell that several training seeds share, because it rests on no training."""
    return replace(spec, labels=replace(spec.labels, seed=""))


def resolve_cell(cfg: DictConfig) -> CellSpec:
    """Return the specification of the one cell that a configuration describes."""
    _validate(cfg)
    project = Project(cfg)
    artifact = cell_artifact(project)
    uses_relevance = needs_relevance(cfg)
    relevance = _models.relevance(project).require() / "relevance.parquet" if uses_relevance else None
    roles = cfg.strategy.get("engines", ["reader"])
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    return CellSpec(
        key=artifact.key,
        folder=artifact.folder,
        labels=_labels(cfg, project),
        settings=_settings(cfg),
        questions=_selection(project),
        retrieval=project.rankings.require(),
        relevance=relevance,
        placement=build(cfg.placement.rule),
        weighting=build(cfg.weighting),
        strategy=lambda: _strategy(project),
        engines=tuple(engine_spec(project, role) for role in roles),
        config=plain,
        identity=artifact.settings,
    )


def cell_artifact(project: Project) -> Artifact:
    """Return the predictions of one cell."""
    cfg = project.cfg
    relevance = _models.relevance(project).identity if needs_relevance(cfg) else None
    roles = cfg.strategy.get("engines", ())
    inputs = {
        "questions": _question_inputs(project),
        "rankings": project.rankings.identity,
        "rank_by": cfg.rank_by,
        "relevance": relevance,
        "weights": _models.reader_weights(project, cfg.reader, cfg.prompt),
        "reader": cfg.reader.engine,
        "engines": {role: engine_spec(project, role).key for role in roles if role != "reader"},
        **{name: cfg[name] for name in ("strategy", "prompt", "decoding", "k", "placement", "weighting")},
    }
    return project.artifact("sweep", "predictions", cfg.strategy.name, inputs)


def closed_book_artifact(project: Project) -> Artifact:
    """Return what the reader answers without passages."""
    cfg = project.cfg
    inputs = {
        "questions": project.questions.identity,
        "weights": _models.reader_weights(project, cfg.reader, cfg.prompt),
        "reader": cfg.reader.engine,
        "prompt": cfg.prompt,
        "closed_book": cfg.closed_book,
    }
    return project.artifact("closed_book", "closed_book", cfg.reader.name, inputs)


def needs_relevance(cfg: DictConfig) -> bool:
    """Return whether a cell uses the estimator's scores: to rank its contexts or to weight them."""
    return "estimator" in (cfg.rank_by, cfg.weighting.by)


def unfiltered(cfg: DictConfig) -> bool:
    """Return whether a dry run precedes the closed-book stage, and so has to assume every question."""
    waiting = cfg.dry_run and cfg.sweep.closed_book_filter
    return bool(waiting and not closed_book_artifact(Project(cfg)).done)


def announce_cells(configs: Sequence[DictConfig]) -> None:
    """Print a line for the first cell that exists already with another precision or runtime."""
    cells = (cell_artifact(Project(cfg)) for cfg in expand(configs))
    for artifact in cells:
        if not artifact.done:
            announce(artifact)
            return


def _validate(cfg: DictConfig) -> None:
    check_settings(cfg)
    build(cfg.decoding)
    if cfg.k > cfg.depth:
        raise ConfigError(f"k={cfg.k} is larger than the stored rankings (depth={cfg.depth}). Lower k, or raise depth.")
    if needs_relevance(cfg) and cfg.score.depth is not None and cfg.k > cfg.score.depth:
        raise ConfigError(
            f"k={cfg.k} is larger than what the estimator scores (score.depth={cfg.score.depth}). Lower k, or set "
            "score.depth=null here and for `python -m flows.score`."
        )


def _question_inputs(project: Project) -> dict[str, Any]:
    cfg = project.cfg
    selection = {"artifact": project.questions.identity, "split": cfg.sweep.split, "limit": cfg.sweep.limit}
    return {**selection, "filter": closed_book_artifact(project).identity} if cfg.sweep.closed_book_filter else selection


def _selection(project: Project) -> QuestionSelection:
    cfg = project.cfg
    filtered = cfg.sweep.closed_book_filter and not unfiltered(cfg)
    closed_book = closed_book_artifact(project).require() / "closed_book.parquet" if filtered else None
    return QuestionSelection(project.questions_file, cfg.sweep.split, cfg.sweep.limit, closed_book)


def _strategy(project: Project) -> Strategy:
    cfg = project.cfg
    strategy: Strategy = build(cfg.strategy.plan, prompt=open_prompt(project, cfg.prompt), decoding=build(cfg.decoding))
    return strategy


def _labels(cfg: DictConfig, project: Project) -> CellLabels:
    order = cfg.placement.rule.get("order")
    gold = f"{cfg.placement.name}_{order}" if isinstance(order, int) else cfg.placement.name
    return CellLabels(
        strategy=cfg.strategy.name,
        k=int(cfg.k),
        gold=gold,
        samples=int(cfg.decoding.samples),
        rank_by=str(cfg.rank_by),
        weight_by=str(cfg.weighting.by),
        questions=f"{project.questions.folder.name}/{cfg.sweep.split}",
        seed=", ".join(str(seed) for seed in cfg.get("seeds") or ()),
    )


def _settings(cfg: DictConfig) -> dict[str, str]:
    """Return the settings that tables name where cells differ in them."""
    decoding = cfg.decoding
    sampled = f"T={decoding.temperature}, {decoding.samples} samples" if decoding.temperature > 0 else "greedy"
    ranking, weighting = (
        f"{by} {cfg.estimator.name}" if by == "estimator" else str(by) for by in (cfg.rank_by, cfg.weighting.by)
    )
    return {
        "dataset": cfg.dataset.name,
        "split": cfg.sweep.split,
        "retriever": cfg.retriever.name,
        "ranked by": ranking,
        "weighted by": weighting,
        "reader": cfg.reader.name,
        "decoding": sampled,
    }
