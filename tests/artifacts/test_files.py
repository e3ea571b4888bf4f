"""Temporary files: those of ended processes are removed, those of live ones and of other hosts
stay.
"""

import os
import time
from pathlib import Path

import pytest

from winnow.artifacts import owners
from winnow.artifacts.files import atomic_write, hold_lock, remove_leftovers


def test_temporary_files_of_ended_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ended process, a reused process id, a live process, another host's, another host's of last
    month.
    """
    host = owners.get_process_name().partition("@")[2]
    ended, reused = f"999999999-1@{host}", f"{os.getpid()}-1@{host}"
    alive, remote, forgotten = owners.get_process_name(), "1-1@another.host", "2-1@another.host"
    for owner in (ended, reused, alive, remote, forgotten):
        (tmp_path / f".x.{owner}.partial").write_text(owner)
    os.utime(tmp_path / f".x.{forgotten}.partial", (time.time() - 30 * 86400,) * 2)
    monkeypatch.setattr("winnow.artifacts.files.get_process_name", lambda: f"{alive}-writer")
    with atomic_write(tmp_path / "x") as partial:
        partial.write_text("new")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        ["x", f".x.{alive}.partial", f".x.{remote}.partial"]
    )


def test_owners() -> None:
    """A process knows itself as running; a name that cannot be read counts as unknown, not as
    ended.
    """
    assert owners.has_ended(owners.get_process_name()) is False
    assert owners.has_ended("not a name") is None
    assert owners.has_ended("1-1@another.host") is None
    assert owners.read_start_time(999999999) == ""


def test_leftovers_of_a_training_are_removed_and_a_user_s_folder_is_not(tmp_path: Path) -> None:
    """Checkpoints, the best models and partial folders by their names; nothing else beside the
    model.
    """
    names = {
        "model",
        "model.checkpoint",
        "model.checkpoints",
        "model.best",
        "model.partial",
        "model.bak",
        "model2.checkpoint",
    }
    for name in names:
        (tmp_path / name).mkdir()
    remove_leftovers(tmp_path / "model")
    assert {path.name for path in tmp_path.iterdir()} == {
        "model",
        "model.bak",
        "model2.checkpoint",
    }


def test_a_lock_is_free_again_after_an_error_and_says_nothing_if_nobody_holds_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While it is held, another one of the same file would wait."""
    with pytest.raises(ValueError, match="inside"), hold_lock(tmp_path / "lock", "waiting"):
        raise ValueError("inside")
    with hold_lock(tmp_path / "lock", "waiting"):
        assert not caplog.text
