"""Logs stages and cells to MLflow, with the tags and data that every run carries."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from flows._artifacts import Artifact, Project
from winnow.artifacts.provenance import content_digest, git_revision, read_manifest
from winnow.reports.cells import CellResult
from winnow.sweeps.run import LoadedCell
from winnow.tracking import DatasetRef, Run, Tracker


def tracker(cfg: DictConfig) -> Tracker:
    """Open the store that the settings name; a relative SQLite path is made absolute."""
    uri = str(cfg.tracking.uri)
    scheme, separator, path = uri.partition("sqlite:///")
    if separator and not scheme and not path.startswith("/"):
        uri = f"sqlite:///{Path(path).resolve()}"
    return Tracker(uri, cfg.tracking.experiment, Path(cfg.tracking.artifacts))


@contextmanager
def track(project: Project, stage: str, artifact: Artifact, params: Mapping[str, Any]) -> Iterator[Run]:
    """Provide a run of a stage; it ends FINISHED, or FAILED if the block raises."""
    run = tracker(project.cfg).start(
        artifact.folder.name,
        params={**_common_params(_plain(project.cfg)), **params},
        tags=_tags(stage, artifact.key, str(project.cfg.sweep.name)),
        data=[_dataset(str(project.cfg.dataset.name), project.questions.folder)],
    )
    try:
        yield run
    except BaseException:
        run.end("FAILED")
        raise
    run.end()


def log_cell(runs: Tracker, cell: LoadedCell, result: CellResult, metrics: str) -> None:
    """Log a finished cell; one that was logged before gets the metrics that it lacks or whose predictions were remade."""
    spec, labels = cell.spec, cell.spec.labels
    tags = _tags("sweep", spec.key, str(spec.config["sweep"]["name"]))
    known = runs.find(config_hash=spec.key, sweep=tags["sweep"])
    predictions = content_digest(spec.folder)
    if known is not None and (known.tag("metrics"), known.tag("predictions")) == (metrics, predictions):
        return
    run = known
    if run is None:
        title = f"{labels.strategy} k={labels.k} {labels.gold} {labels.setting}".strip()
        names = {"strategy": labels.strategy, "k": labels.k, "gold": labels.gold}
        settings = {"rank_by": labels.rank_by, "weight_by": labels.weight_by, "decoding": spec.config["decoding"]}
        params = {**_common_params(spec.config), **names, **settings}
        data = _dataset(str(spec.config["dataset"]["name"]), spec.questions.path.parent)
        run = runs.start(title, params=params, tags=tags, data=[data])
        run.text(yaml.safe_dump(json.loads(json.dumps(spec.config)), sort_keys=False), "config.yaml")
    if run.tag("predictions") != predictions:
        run.file(spec.predictions)
    run.metrics(_values(cell, result))
    run.set_tag("metrics", metrics)
    run.set_tag("predictions", predictions)
    run.set_tag("git", str(read_manifest(spec.folder)["git"]))
    run.end()


def _values(cell: LoadedCell, result: CellResult) -> dict[str, float]:
    intervals = {metric.name: result.interval(metric.name, 0) for metric in result.metrics}
    known = {name: interval for name, interval in intervals.items() if interval.n}
    return {
        **{name: interval.mean for name, interval in known.items()},
        **{f"{name}_{end}": getattr(interval, end) for name, interval in known.items() for end in ("low", "high")},
        "questions": float(len(result.samples)),
        "num_short_rankings": float(cell.num_short_rankings),
        "truncated_passages": float(sum(sample.prediction.truncated_passages for sample in result.samples)),
    }


def _common_params(settings: Mapping[str, Any]) -> dict[str, str]:
    groups = ("dataset", "corpus", "retriever", "reader", "estimator")
    return {group: str(settings[group]["name"]) for group in groups}


def _tags(stage: str, key: str, sweep: str) -> dict[str, str]:
    return {"stage": stage, "config_hash": key, "git": git_revision(), "sweep": sweep}


def _dataset(name: str, questions: Path) -> DatasetRef:
    return DatasetRef(name, questions.name.rpartition("-")[2], str(questions))


def _plain(cfg: DictConfig) -> Mapping[str, Any]:
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    return plain  # type: ignore[no-any-return]  # OmegaConf leaves it untyped


def silent(metrics: Mapping[str, float], step: int) -> None:
    """Log nothing: for trainings without a run of their own, such as those of all processes but the first."""
