"""Logging of runs to MLflow, which no other module imports. Runs are not nested, and are compared
by name in MLflow.
"""

from __future__ import annotations

import fcntl
import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from winnow.artifacts.files import atomic_write
from winnow.artifacts.parquet import batched
from winnow.artifacts.provenance import flatten
from winnow.errors import ConfigError

if TYPE_CHECKING:
    from mlflow import MlflowClient


_log = logging.getLogger(__name__)
_VIEW_TAG = "mlflow.sharedViewState."
"""Start of the name of the tags in which MLflow's page stores shared views as JSON."""
_FOLDER_TAG = "winnow.folder"
"""Tag of an experiment with the folder of its store, by which an experiment of a moved store is
recognized.
"""


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
        artifacts: Folder for attached files of a new experiment.

    """

    def __init__(self, uri: str, experiment: str, artifacts: Path) -> None:
        """Open the store and the experiment. Creating a new store takes some seconds."""
        from mlflow.exceptions import MlflowException

        self.uri = uri
        self.client = open_store(uri)
        store, location = _get_store_path(uri), artifacts.resolve().as_uri()
        folder = str(store.resolve().parent) if store else ""
        known = self.client.get_experiment_by_name(experiment)
        if known is not None:
            if known.lifecycle_stage == "deleted":
                self.client.restore_experiment(known.experiment_id)
            former = known.tags.get(_FOLDER_TAG, folder)
            if former == folder or known.artifact_location == location:
                self.experiment_id: str = known.experiment_id
                return
            # The store was moved or copied, and MLflow keeps the files of an experiment at an
            # absolute address.
            name = f"{experiment} ({known.experiment_id} of {former})"
            _log.warning(
                "%s was moved from %s: its experiment %r is now named %r.",
                store,
                former,
                experiment,
                name,
            )
            self.client.rename_experiment(known.experiment_id, name)
        tags = {_FOLDER_TAG: folder} if folder else {}
        try:
            self.experiment_id = self.client.create_experiment(
                experiment, artifact_location=location, tags=tags
            )
        except MlflowException:  # another process has just created it
            known = self.client.get_experiment_by_name(experiment)
            if known is None:
                raise
            self.experiment_id = known.experiment_id

    def save_view(
        self, name: str, *, metrics: Sequence[str], params: Sequence[str], search: str
    ) -> None:
        """Save which columns and runs of the experiment MLflow's page shows under
        `viewStateShareKey=<name>`.

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
        tag, text = _VIEW_TAG + name, json.dumps(state)
        if self.client.get_experiment(self.experiment_id).tags.get(tag) == text:
            return
        try:
            self.client.set_experiment_tag(self.experiment_id, tag, text)
        except Exception:  # MLflow raises errors of its database here
            if self.client.get_experiment(self.experiment_id).tags.get(tag) != text:
                raise  # otherwise another process has just saved the same view

    def find_run(self, **tags: str) -> Run | None:
        """Return the latest finished run with these tags, or None if there is none."""
        conditions = " and ".join(f"tags.{name} = '{value}'" for name, value in tags.items())
        runs = self.client.search_runs(
            [self.experiment_id], f"{conditions} and status = 'FINISHED'", max_results=1
        )
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


def find_views(uri: str, name: str) -> dict[str, str]:
    """Return the names and ids of the experiments that have a saved view of this name, the latest
    one first.
    """
    experiments = open_store(uri).search_experiments(order_by=["last_update_time DESC"])
    return {one.name: one.experiment_id for one in experiments if _VIEW_TAG + name in one.tags}


def find_cell_run(uri: str, key: str) -> tuple[str, str] | None:
    """Return the ids of the experiment and the run of a cell, by the key of the cell; the latest,
    or None.
    """
    store = open_store(uri)
    experiments = [one.experiment_id for one in store.search_experiments()]
    condition = f"tags.config_hash = '{key}' and tags.stage = 'sweep'"
    runs = store.search_runs(
        experiments, condition, max_results=1, order_by=["attributes.start_time DESC"]
    )
    return (runs[0].info.experiment_id, runs[0].info.run_id) if runs else None


def open_store(uri: str) -> MlflowClient:
    """Open an MLflow store. A store in a file is created if needed.

    Raises:
        ConfigError: If the store was written by another version of MLflow, or cannot be used.

    """
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    store = _get_store_path(uri)
    if store:
        _create_store(store)
    try:
        client = MlflowClient(uri)
        client.search_experiments(max_results=1)
    except (MlflowException, SQLAlchemyError) as error:
        if "out-of-date" not in str(error):
            problem = str(error).partition("\n")[0].rstrip(".")
            raise ConfigError(
                f"The MLflow store {uri} cannot be used: {problem}. Correct tracking.uri, start "
                "its server, or move the file away: the runs of finished cells are then logged "
                "again from their artifacts."
            ) from error
        raise ConfigError(
            f"The MLflow store {uri} was written by another version of MLflow. Copy it, and run "
            f"`mlflow db upgrade {uri}`; a store of a newer version needs that version."
        ) from error
    return client


@contextmanager
def open_ahead(uris: Iterable[str]) -> Iterator[None]:
    """Open MLflow stores in a thread while the block runs, because the first one takes seconds.

    What fails there fails again, with its message, where the store is used.
    """
    wanted = set(uris)

    def open_all() -> None:
        for uri in wanted:
            with suppress(Exception):
                open_store(uri)

    thread = Thread(target=open_all, name="MLflow")
    thread.start()
    try:
        yield
    finally:
        thread.join()


def is_logged(uri: str, digest: str) -> bool:
    """Return whether a store in a file is as it was when `mark_logged` was called for the same
    digest; imports no MLflow.
    """
    store = _get_store_path(uri)
    try:
        return store is not None and _get_mark(store).read_text(encoding="utf-8") == _describe_mark(
            store, digest
        )
    except OSError:
        return False


def mark_logged(uri: str, digest: str) -> None:
    """Record in a file next to the store that it has what the digest describes, until something
    else is written to it.
    """
    store = _get_store_path(uri)
    if store is not None:
        with atomic_write(_get_mark(store)) as partial:
            partial.write_text(_describe_mark(store, digest), encoding="utf-8")


def _get_mark(store: Path) -> Path:
    return store.with_name(f"{store.name}.logged")


def _describe_mark(store: Path, digest: str) -> str:
    stat = store.stat()
    return f"{digest} {store.resolve()} {stat.st_ino} {stat.st_size} {stat.st_mtime_ns}\n"


def _get_store_path(uri: str) -> Path | None:
    """Return the file of a store in SQLite, or None for another store."""
    scheme, _, path = uri.partition("sqlite:///")
    return Path(path) if path and not scheme else None


def _create_store(path: Path) -> None:
    """Create an SQLite store unless it exists, under a lock and another name.

    MLflow cannot create a store in two processes at once, and cannot open one whose creation was
    interrupted.
    """
    from mlflow import MlflowClient

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return
        logging.getLogger("mlflow.store.db.utils").setLevel(
            logging.WARNING
        )  # it announces each table that it creates
        with atomic_write(path) as partial:
            MlflowClient(f"sqlite:///{partial.resolve()}").search_experiments()


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
        """Attach a table, which MLflow's page shows and compares between runs; one of the same name
        is replaced.

        MLflow's own `log_table` appends to a table of the same name.
        """
        self.log_text(
            json.dumps(
                {"columns": list(columns), "data": [list(row) for row in rows]}, ensure_ascii=False
            ),
            name,
        )
        self.set_tag("mlflow.loggedArtifacts", json.dumps([{"path": name, "type": "table"}]))

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
    """Return settings by dotted name. A class path (`_target_`) is replaced by "class" with the
    name of the class.
    """
    return {
        name.replace("_target_", "class"): (
            value.rpartition(".")[2] if name.endswith("_target_") else value
        )
        for name, value in flatten(settings).items()
    }
