"""MLflow's stores: how they are opened, and what is said of those that cannot be."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from winnow.errors import ConfigError
from winnow.tracking.stores import is_logged, mark_logged, open_ahead, open_store


def test_what_is_not_a_store_is_left_as_it_is(tmp_path: Path) -> None:
    """The error says what to do; no run is lost by it."""
    path = tmp_path / "mlflow.db"
    path.write_bytes(b"garbage" * 1000)
    with pytest.raises(
        ConfigError, match=r"MLflow store .* cannot be used: .*not a database.*move the file away"
    ):
        open_store(f"sqlite:///{path}")
    assert path.read_bytes() == b"garbage" * 1000


def test_a_store_of_another_version_is_named_with_the_command_that_mends_it(
    tmp_path: Path,
) -> None:
    """The store is left as it is."""
    path = tmp_path / "mlflow.db"
    open_store(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE alembic_version SET version_num = '451aebb31d03'")
    other = Path(
        shutil.copy(path, tmp_path / "other.db")
    )  # MLflow checks each address once a process
    with pytest.raises(ConfigError, match="mlflow db upgrade sqlite:///"):
        open_store(f"sqlite:///{other}")
    assert other.read_bytes() == path.read_bytes()


def test_a_store_is_opened_while_something_else_runs(tmp_path: Path) -> None:
    """It exists when the block ends; one that cannot be opened is named where it is used."""
    new, wrong = tmp_path / "mlflow.db", tmp_path / "text.db"
    wrong.write_text("not a store")
    with open_ahead([f"sqlite:///{wrong}", f"sqlite:///{new}"]):
        pass
    assert new.is_file()
    with pytest.raises(ConfigError, match="cannot be used"):
        open_store(f"sqlite:///{wrong}")


def test_a_store_is_marked_until_something_is_written(tmp_path: Path) -> None:
    """For one digest."""
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    client = open_store(uri)
    assert not is_logged(uri, "digest")
    mark_logged(uri, "digest")
    assert is_logged(uri, "digest")
    assert not is_logged(uri, "another")
    client.create_experiment("new")
    assert not is_logged(uri, "digest")
