"""Fixtures of the tests of code."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from tests.identity.projects import Project
from winnow.identity.code import get_revision


@pytest.fixture
def revision_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], str]:
    """The revision of the class `Theirs` in a module with this source and modification time."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def of(source: str, time: int) -> str:
        (tmp_path / "theirs.py").write_text(source)
        os.utime(tmp_path / "theirs.py", ns=(time, time))
        monkeypatch.delitem(sys.modules, "theirs", raising=False)
        return str(get_revision(import_module("theirs").Theirs))

    return of


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(tmp_path, monkeypatch)
