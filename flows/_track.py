"""Starts an MLflow run for a stage, with the tags and data that every run carries."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from flows._artifacts import Artifact, questions
from winnow.store import git_revision
from winnow.tracking import DatasetRef, Run, Tracker


def tracker(cfg: DictConfig) -> Tracker:
    """Open the store that the settings name; a relative SQLite path is made absolute."""
    uri = str(cfg.tracking.uri)
    scheme, mark, path = uri.partition("sqlite:///")
    if mark and not scheme and not path.startswith("/"):
        uri = f"sqlite:///{Path(path).resolve()}"
    return Tracker(uri, cfg.tracking.experiment, Path(cfg.tracking.artifacts))


@contextmanager
def track(
    cfg: DictConfig,
    stage: str,
    made: Artifact,
    params: Mapping[str, Any],
    open_tracker: Tracker | None = None,
    name: str | None = None,
) -> Iterator[Run]:
    """Give a run that ends FINISHED, or FAILED where the block raises; it is named for the artifact if not otherwise."""
    tags = {"stage": stage, "config_hash": made.key, "git": git_revision(), "sweep": str(cfg.sweep.name)}
    common = {
        "dataset": cfg.dataset.name,
        "corpus": cfg.corpus.name,
        "retriever": cfg.retriever.name,
        "reader": cfg.reader.name,
        "estimator": cfg.estimator.name,
    }
    asked = questions(cfg)
    data = [DatasetRef(str(cfg.dataset.name), asked.key, str(asked.folder))]
    run = (open_tracker or tracker(cfg)).start(name or made.folder.name, params={**common, **params}, tags=tags, data=data)
    try:
        yield run
    except BaseException:
        run.end("FAILED")
        raise
    run.end()


def silent(metrics: Mapping[str, float], step: int) -> None:
    """Log nothing: for trainings without a run of their own, such as those of all processes but the first."""
