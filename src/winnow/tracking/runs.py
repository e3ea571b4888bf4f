"""Logging of runs to MLflow. Runs are not nested, and are compared by name in MLflow."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winnow.artifacts.parquet import batched
from winnow.artifacts.provenance import flatten
from winnow.tracking.stores import VIEW_TAG, get_store_path, open_store

if TYPE_CHECKING:
    from mlflow import MlflowClient


_log = logging.getLogger(__name__)
_FOLDER_TAG = "winnow.folder"
"""Tag with the folder of an experiment's store, by which a moved store is recognized."""
_TABLES_TAG = "mlflow.loggedArtifacts"
"""Tag of a run with the files that MLflow's page shows as tables."""


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
        uri: Address of the MLflow store, such as "sqlite:///mlflow.db" with an absolute or relative
            path.
        experiment: Name of the experiment, which is created if it does not exist.
        artifacts: Folder for attached files of a new experiment; a server has one of its own.
    """

    def __init__(self, uri: str, experiment: str, artifacts: Path) -> None:
        """Open the store and the experiment. Creating a new store takes some seconds."""
        from mlflow.exceptions import MlflowException

        self.uri = uri
        self.client = open_store(uri)
        store, location = get_store_path(uri), artifacts.resolve().as_uri()
        folder = str(store.resolve().parent) if store else ""
        existing_experiment = self.client.get_experiment_by_name(experiment)
        if existing_experiment is not None:
            if existing_experiment.lifecycle_stage == "deleted":
                self.client.restore_experiment(existing_experiment.experiment_id)
            former = existing_experiment.tags.get(_FOLDER_TAG, folder)
            if former == folder or existing_experiment.artifact_location == location:
                self.experiment_id: str = existing_experiment.experiment_id
                return
            # The store was moved or copied, and MLflow keeps the files of an experiment at an
            # absolute address.
            name = f"{experiment} ({existing_experiment.experiment_id} of {former})"
            _log.warning(
                "%s was moved from %s: its experiment %r is now named %r.",
                store,
                former,
                experiment,
                name,
            )
            self.client.rename_experiment(existing_experiment.experiment_id, name)
        tags = {_FOLDER_TAG: folder} if folder else {}
        try:
            self.experiment_id = self.client.create_experiment(
                experiment, artifact_location=location if store else None, tags=tags
            )
        except MlflowException:  # another process has just created it
            existing_experiment = self.client.get_experiment_by_name(experiment)
            if existing_experiment is None:
                raise
            self.experiment_id = existing_experiment.experiment_id

    def save_view(
        self, name: str, *, metrics: Sequence[str], params: Sequence[str], search: str
    ) -> None:
        """Save which columns and runs MLflow's page shows under `viewStateShareKey=<name>`.

        Args:
            name: Name of the view.
            metrics: Names of metrics to show as columns.
            params: Names of parameters to show as columns.
            search: Filter of the runs in MLflow's search syntax.
        """
        columns = [f"metrics.`{metric}`" for metric in metrics] + [
            f"params.`{param}`" for param in params
        ]
        state = {"searchFilter": search, "selectedColumns": columns, "groupBy": None}
        tag, text = VIEW_TAG + name, json.dumps(state)
        if self.client.get_experiment(self.experiment_id).tags.get(tag) == text:
            return
        try:
            self.client.set_experiment_tag(self.experiment_id, tag, text)
        except Exception:  # MLflow raises errors of its database here
            if self.client.get_experiment(self.experiment_id).tags.get(tag) != text:
                raise  # otherwise another process has just saved the same view

    def find_run(self, **tags: str) -> Run | None:
        """Return the latest finished run with these tags, or None if there is none."""
        conditions = [f"tags.{name} = {_quote(value)}" for name, value in tags.items()]
        search = " and ".join([*conditions, "status = 'FINISHED'"])
        runs = self.client.search_runs([self.experiment_id], search, max_results=1)
        return Run(self.client, runs[0].info.run_id) if runs else None

    def start_run(
        self,
        name: str,
        *,
        params: Mapping[str, Any],
        tags: Mapping[str, str],
        data: Sequence[DatasetRef] = (),
        started: float | None = None,
    ) -> Run:
        """Start a run. Nested parameters are logged under dotted names such as "placement.gold".

        Args:
            name: Name of the run.
            params: Parameters of the run.
            tags: Tags of the run.
            data: Data of the run.
            started: Unix timestamp of the start, or None for now.
        """
        from mlflow.entities import Dataset, DatasetInput, Param, RunTag

        run = self.client.create_run(
            self.experiment_id,
            run_name=name,
            start_time=None if started is None else int(started * 1000),
        )
        run_id = run.info.run_id
        # MLflow accepts values of up to 6000 characters, and up to 100 parameters in a batch.
        logged_params = [
            Param(key, str(value)[:6000]) for key, value in _flatten_settings(params).items()
        ]
        self.client.log_batch(run_id, tags=[RunTag(key, value) for key, value in tags.items()])
        for batch in batched(logged_params, 100):
            self.client.log_batch(run_id, params=list(batch))
        datasets = [
            Dataset(ref.name, ref.digest, "local", json.dumps({"uri": ref.source})) for ref in data
        ]
        inputs = [DatasetInput(dataset) for dataset in datasets]
        if inputs:
            self.client.log_inputs(run_id, inputs)
        return Run(self.client, run_id)


class Run:
    """A run of an MLflow experiment, to which metrics, files, texts and tags are logged."""

    def __init__(self, client: MlflowClient, run_id: str) -> None:
        """Open the run with this id."""
        self.client, self.run_id = client, run_id
        self.history: list[tuple[int, Mapping[str, float]]] = []

    def log_metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Log several metrics in one write, and keep them in `history`."""
        from mlflow.entities import Metric

        self.history.append((step, dict(values)))
        now = int(time.time() * 1000)
        self.client.log_batch(
            self.run_id,
            metrics=[Metric(key, float(value), now, step) for key, value in values.items()],
        )

    def log_file(self, path: Path, folder: str | None = None) -> None:
        """Attach a file, in `folder` among the artifacts of the run if it is given."""
        self.client.log_artifact(self.run_id, str(path), folder)

    def log_text(self, text: str, name: str) -> None:
        """Attach a text as a file of this name."""
        self.client.log_text(self.run_id, text, name)

    def log_table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], name: str) -> None:
        """Attach a table that MLflow shows and compares between runs, replacing one of this name.

        MLflow's own `log_table` appends to a table of the same name.
        """
        self.log_text(
            json.dumps(
                {"columns": list(columns), "data": [list(row) for row in rows]}, ensure_ascii=False
            ),
            name,
        )
        tables: list[dict[str, str]] = json.loads(self.get_tag(_TABLES_TAG) or "[]")
        entry = {"path": name, "type": "table"}
        if entry not in tables:
            self.set_tag(_TABLES_TAG, json.dumps([*tables, entry]))

    def get_tag(self, name: str) -> str | None:
        """Return the value of a tag of the run, or None if the run lacks the tag."""
        value: str | None = self.client.get_run(self.run_id).data.tags.get(name)
        return value

    def set_tag(self, name: str, value: str) -> None:
        """Set a tag of the run."""
        self.client.set_tag(self.run_id, name, value)

    def end(self, status: str = "FINISHED", ended: float | None = None) -> None:
        """End the run with a status of MLflow, such as "FINISHED" or "FAILED".

        Args:
            status: Status of the run.
            ended: Unix timestamp of the end, or None for now.
        """
        self.client.set_terminated(
            self.run_id, status, end_time=None if ended is None else int(ended * 1000)
        )


def _flatten_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by dotted name, with `_target_` replaced by "class" and the class name."""
    return {
        name.replace("_target_", "class"): (
            value.rpartition(".")[2] if name.endswith("_target_") else value
        )
        for name, value in flatten(settings).items()
    }


def _quote(value: str) -> str:
    """Quote a value in MLflow's search syntax, which has no escapes."""
    return f'"{value}"' if "'" in value else f"'{value}'"
