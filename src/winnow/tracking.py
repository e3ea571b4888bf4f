"""Logging of runs to MLflow, which no other module imports. Runs are not nested, and are compared by name in MLflow."""

from __future__ import annotations

import fcntl
import json
import logging
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winnow.artifacts.files import atomic_write
from winnow.artifacts.provenance import flatten
from winnow.errors import ConfigError

if TYPE_CHECKING:
    from mlflow import MlflowClient


_log = logging.getLogger(__name__)
_SETTLING_SECONDS = 20.0
"""Time without changes after which an unusable store is treated as abandoned, instead of as being created."""


@dataclass(frozen=True, slots=True)
class DatasetRef:
    """The data of a run.

    Attributes:
        name: Name of the data set.
        digest: Digest that identifies the content.
        source: Path of the data.

    """

    name: str
    digest: str
    source: str


class Tracker:
    """Writes runs to one MLflow experiment. Create it before any work runs in parallel.

    Args:
        uri: Address of the MLflow store, such as "sqlite:///mlflow.db" with an absolute or relative path.
        experiment: Name of the experiment, which is created if it does not exist.
        artifacts: Folder for attached files of a new experiment.

    """

    def __init__(self, uri: str, experiment: str, artifacts: Path) -> None:
        """Open the store and the experiment. Creating a new store takes some seconds."""
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        scheme, _, path = uri.partition("sqlite:///")
        if not scheme and path:
            _create_store(Path(path))
        self.client: MlflowClient = MlflowClient(uri)
        known = self.client.get_experiment_by_name(experiment)
        if known is not None:
            self.experiment_id: str = known.experiment_id
            return
        try:
            self.experiment_id = self.client.create_experiment(experiment, artifact_location=artifacts.resolve().as_uri())
        except MlflowException:  # another process has just created it
            known = self.client.get_experiment_by_name(experiment)
            if known is None:
                raise
            self.experiment_id = known.experiment_id

    def find_run(self, **tags: str) -> Run | None:
        """Return the latest finished run with these tags, or None if there is none."""
        conditions = " and ".join(f"tags.{name} = '{value}'" for name, value in tags.items())
        runs = self.client.search_runs([self.experiment_id], f"{conditions} and status = 'FINISHED'", max_results=1)
        return Run(self.client, runs[0].info.run_id) if runs else None

    def start_run(
        self, name: str, *, params: Mapping[str, Any], tags: Mapping[str, str], data: Sequence[DatasetRef] = ()
    ) -> Run:
        """Start a run. Nested parameters are logged under dotted names such as "placement.gold"."""
        from mlflow.entities import Dataset, DatasetInput, Param, RunTag

        run = self.client.create_run(self.experiment_id, run_name=name)
        run_id = run.info.run_id
        # MLflow accepts values of up to 6000 characters, and up to 100 parameters in a batch.
        logged_params = [Param(key, str(value)[:6000]) for key, value in _flatten_settings(params).items()]
        self.client.log_batch(run_id, params=logged_params[:100], tags=[RunTag(key, value) for key, value in tags.items()])
        datasets = [Dataset(ref.name, ref.digest, "local", json.dumps({"uri": ref.source})) for ref in data]
        inputs = [DatasetInput(dataset) for dataset in datasets]
        if inputs:
            self.client.log_inputs(run_id, inputs)
        return Run(self.client, run_id)


def _create_store(path: Path) -> None:
    """Create an SQLite store unless it exists. A store whose creation was interrupted is renamed, and a new one is created.

    MLflow cannot open a store whose creation was interrupted. A store is therefore created under another name and renamed.
    MLflow cannot create a store in two processes at once either. It is therefore created under a lock.

    Raises:
        ConfigError: If the store contains runs but is damaged.

    """
    from mlflow import MlflowClient

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            while not (is_usable := _is_usable(path)) and time.time() - path.stat().st_mtime < _SETTLING_SECONDS:
                time.sleep(1)  # another program may be creating it, such as `mlflow server`
            if is_usable:
                return
            broken = path.with_name(f"{path.name}.broken-{time.time_ns()}")
            path.rename(broken)
            _log.warning(
                "The MLflow store %s was created incompletely. It is kept as %s, and a new store is created.", path, broken
            )
        with atomic_write(path) as partial:
            MlflowClient(f"sqlite:///{partial.resolve()}").search_experiments()


def _is_usable(path: Path) -> bool:
    """Return whether the tables of a store are complete; False means that it contains no runs and can be replaced.

    Raises:
        ConfigError: If the store is damaged and may contain runs, or if the file is another database.

    """
    try:
        with closing(sqlite3.connect(path, timeout=60)) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not tables:
                return False
            if not tables & {"alembic_version", "experiments"}:
                raise ConfigError(f"{path} is another database, not a store of MLflow. Name another file in tracking.uri.")
            if not {"alembic_version", "experiments", "runs"} <= tables:
                has_runs = "runs" in tables and db.execute("SELECT COUNT(*) FROM runs").fetchone()[0] > 0
                if not has_runs:
                    return False
                raise ConfigError(_describe_unusable_store(path, "tables are missing"))
            has_default_experiment = db.execute("SELECT COUNT(*) FROM experiments").fetchone()[0] > 0
            has_version = db.execute("SELECT COUNT(*) FROM alembic_version").fetchone()[0] > 0
            is_sound = db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
            if is_sound and has_version and has_default_experiment:
                return True
            if not db.execute("SELECT COUNT(*) FROM runs").fetchone()[0]:
                return False
            problem = "it is damaged"
    except sqlite3.DatabaseError as error:
        problem = str(error)
    raise ConfigError(_describe_unusable_store(path, problem))


def _describe_unusable_store(path: Path, problem: str) -> str:
    """Build the error message for a store that cannot be used and may contain runs."""
    return (
        f"The MLflow store {path} cannot be used: {problem}. Move it away, and run the command again. The runs of finished "
        "cells are then logged again from their artifacts."
    )


class Run:
    """A run of an MLflow experiment, to which metrics, files, texts and tags are logged."""

    def __init__(self, client: MlflowClient, run_id: str) -> None:
        """Open the run with this id."""
        self.client, self.run_id = client, run_id

    def log_metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Log several metrics in one write."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self.client.log_batch(self.run_id, metrics=[Metric(key, float(value), now, step) for key, value in values.items()])

    def log_file(self, path: Path, folder: str | None = None) -> None:
        """Attach a file, in `folder` among the artifacts of the run if it is given."""
        self.client.log_artifact(self.run_id, str(path), folder)

    def log_text(self, text: str, name: str) -> None:
        """Attach a text as a file of this name."""
        self.client.log_text(self.run_id, text, name)

    def get_tag(self, name: str) -> str | None:
        """Return the value of a tag of the run, or None if the run lacks the tag."""
        value: str | None = self.client.get_run(self.run_id).data.tags.get(name)
        return value

    def set_tag(self, name: str, value: str) -> None:
        """Set a tag of the run."""
        self.client.set_tag(self.run_id, name, value)

    def end(self, status: str = "FINISHED") -> None:
        """End the run with a status of MLflow, such as "FINISHED" or "FAILED"."""
        self.client.set_terminated(self.run_id, status)


def _flatten_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by dotted name. A class path (`_target_`) is replaced by "class" with the name of the class."""
    return {
        name.replace("_target_", "class"): value.rpartition(".")[2] if name.endswith("_target_") else value
        for name, value in flatten(settings).items()
    }
