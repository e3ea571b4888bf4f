"""Logging to MLflow, whose only importer this is. Runs are flat and named for the compare page."""

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
"""How long a store that cannot be used must have been unchanged before it counts as abandoned."""


@dataclass(frozen=True, slots=True)
class DatasetRef:
    """The data of a run, with a digest that identifies its content."""

    name: str
    digest: str
    source: str


class Tracker:
    """Writes runs to one MLflow experiment; created once before anything runs in parallel."""

    def __init__(self, uri: str, experiment: str, artifacts: Path) -> None:
        """Open the store (a new one is created and migrated, which takes some seconds) and the experiment."""
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

    def find(self, **tags: str) -> Run | None:
        """Return the latest finished run with these tags, None where there is none."""
        conditions = " and ".join(f"tags.{name} = '{value}'" for name, value in tags.items())
        runs = self.client.search_runs([self.experiment_id], f"{conditions} and status = 'FINISHED'", max_results=1)
        return Run(self.client, runs[0].info.run_id) if runs else None

    def start(self, name: str, *, params: Mapping[str, Any], tags: Mapping[str, str], data: Sequence[DatasetRef] = ()) -> Run:
        """Start a run; parameters are flattened ("placement.gold")."""
        from mlflow.entities import Dataset, DatasetInput, Param, RunTag

        run = self.client.create_run(self.experiment_id, run_name=name)
        run_id = run.info.run_id
        flat = [Param(key, str(value)[:6000]) for key, value in _named(params).items()]
        self.client.log_batch(run_id, params=flat[:100], tags=[RunTag(key, value) for key, value in tags.items()])
        inputs = [DatasetInput(Dataset(d.name, d.digest, "local", json.dumps({"uri": d.source}))) for d in data]
        if inputs:
            self.client.log_inputs(run_id, inputs)
        return Run(self.client, run_id)


def _create_store(path: Path) -> None:
    """Create an SQLite store unless there is one; one whose creation was interrupted is kept beside it, and created again.

    A store is created under another name and then renamed, because MLflow cannot open one whose creation was interrupted,
    and under a lock, because it cannot create one in two processes at once.

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
            _log.warning("%s was created incompletely; it is kept as %s, and created again.", path, broken)
        with atomic_write(path) as partial:
            MlflowClient(f"sqlite:///{partial.resolve()}").search_experiments()


def _is_usable(path: Path) -> bool:
    """Return whether MLflow can open a store, as far as its tables tell; False if it has no runs that could be lost.

    Raises:
        ConfigError: If it has runs, but cannot be read.

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
                raise ConfigError(_unusable(path, "tables are missing"))
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
    raise ConfigError(_unusable(path, problem))


def _unusable(path: Path, problem: str) -> str:
    return (
        f"The MLflow store {path} cannot be used: {problem}. Move it away: the runs of finished cells are logged again from "
        "their artifacts."
    )


class Run:
    """One run."""

    def __init__(self, client: MlflowClient, run_id: str) -> None:
        """Keep the client and the run's id."""
        self.client, self.run_id = client, run_id

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Log several metrics in one write."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self.client.log_batch(self.run_id, metrics=[Metric(key, float(value), now, step) for key, value in values.items()])

    def file(self, path: Path, folder: str | None = None) -> None:
        """Attach a file."""
        self.client.log_artifact(self.run_id, str(path), folder)

    def text(self, text: str, name: str) -> None:
        """Attach a text."""
        self.client.log_text(self.run_id, text, name)

    def tag(self, name: str) -> str | None:
        """Return a tag of the run, None where it has none of this name."""
        value: str | None = self.client.get_run(self.run_id).data.tags.get(name)
        return value

    def set_tag(self, name: str, value: str) -> None:
        """Set a tag."""
        self.client.set_tag(self.run_id, name, value)

    def end(self, status: str = "FINISHED") -> None:
        """Close the run."""
        self.client.set_terminated(self.run_id, status)


def _named(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by dotted name; a class path (`_target_`) becomes "class" with its last part."""
    return {
        name.replace("_target_", "class"): value.rpartition(".")[2] if name.endswith("_target_") else value
        for name, value in flatten(settings).items()
    }
