"""MLflow's stores: opening and creating them, and what was written to one last."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from winnow.artifacts.files import atomic_write, hold_lock
from winnow.errors import ConfigError

if TYPE_CHECKING:
    from mlflow import MlflowClient


VIEW_TAG = "mlflow.sharedViewState."
"""Start of the name of the tags in which MLflow's page stores shared views as JSON."""


def find_views(uri: str, name: str) -> dict[str, str]:
    """Return the names and ids of experiments with a saved view of this name, latest first."""
    experiments = open_store(uri).search_experiments(order_by=["last_update_time DESC"])
    return {one.name: one.experiment_id for one in experiments if VIEW_TAG + name in one.tags}


def find_cell_run(uri: str, key: str) -> tuple[str, str] | None:
    """Return the experiment and run ids of a cell's latest run by the cell's key, or None."""
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

    store = get_store_path(uri)
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
    distinct_uris = set(uris)

    def open_all() -> None:
        for uri in distinct_uris:
            with suppress(Exception):
                open_store(uri)

    thread = Thread(target=open_all, name="MLflow")
    thread.start()
    try:
        yield
    finally:
        thread.join()


def is_logged(uri: str, digest: str) -> bool:
    """Return whether a store is as `mark_logged` left it for a digest, without importing MLflow."""
    store = get_store_path(uri)
    try:
        return store is not None and _get_mark(store).read_text(encoding="utf-8") == _describe_mark(
            store, digest
        )
    except OSError:
        return False


def mark_logged(uri: str, digest: str) -> None:
    """Record in a file next to the store that it matches the digest, until it is written to."""
    store = get_store_path(uri)
    if store is not None:
        with atomic_write(_get_mark(store)) as partial:
            partial.write_text(_describe_mark(store, digest), encoding="utf-8")


def _get_mark(store: Path) -> Path:
    return store.with_name(f"{store.name}.logged")


def _describe_mark(store: Path, digest: str) -> str:
    stat = store.stat()
    return f"{digest} {store.resolve()} {stat.st_ino} {stat.st_size} {stat.st_mtime_ns}\n"


def get_store_path(uri: str) -> Path | None:
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
    with hold_lock(path.with_name(f"{path.name}.lock")):
        if path.exists():
            return
        logging.getLogger("mlflow.store.db.utils").setLevel(
            logging.WARNING
        )  # it announces each table that it creates
        with atomic_write(path) as partial:
            MlflowClient(f"sqlite:///{partial.resolve()}").search_experiments()
