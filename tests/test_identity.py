"""Which settings, names and code identify a component."""

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest

from winnow import identity
from winnow.identity import HubName, parse_dataset_name, parse_model_name
from winnow.testing import ScriptedReader


class Base:
    """Declares two kinds."""

    speed_only: ClassVar[Mapping[str, str]] = {"batch_size": "batches"}
    input_files: ClassVar[tuple[str, ...]] = ("path",)


class Derived(Base):
    """Declares more, and resolves."""

    speed_only: ClassVar[Mapping[str, str]] = {"threads": "threads"}
    model_paths: ClassVar[tuple[str, ...]] = ("model",)

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Resolve "auto"."""
        return {**settings, "dtype": "float32"}


class Silent:
    """Declares nothing."""


def test_declarations_add_up_along_the_bases() -> None:
    """A subclass keeps what its base declares; reasons come with the names."""
    assert identity.get_speed_only_settings(Derived) == {"batch_size": "batches", "threads": "threads"}
    assert identity.get_speed_only_settings(Base) == {"batch_size": "batches"}
    assert (identity.get_input_file_settings(Derived), identity.get_model_path_settings(Derived)) == (("path",), ("model",))


def test_every_setting_counts_by_default() -> None:
    """A class without declarations leaves nothing out and resolves nothing."""
    assert (
        identity.get_speed_only_settings(Silent),
        identity.get_input_file_settings(Silent),
        identity.get_model_path_settings(Silent),
    ) == ({}, (), ())
    assert identity.resolve_component_settings(Silent, {"dtype": "auto"}) == {"dtype": "auto"}
    assert identity.resolve_component_settings(Derived, {"dtype": "auto"}) == {"dtype": "float32"}


NAME = "owner/name"


@pytest.mark.parametrize(
    ("path", "model", "dataset"),
    [
        (NAME, HubName(NAME), HubName(NAME)),
        (f"{NAME}@main", HubName(NAME, "main"), HubName(NAME, "main")),
        ("name", None, HubName("name")),
        ("a/b/c", None, None),
        ("./a", None, None),
        ("/a", None, None),
        (f"{NAME}.gguf", None, HubName(f"{NAME}.gguf")),
        ("json", None, None),
        ("here/folder", None, None),
        ("here", None, None),
    ],
)
def test_paths_and_formats_are_no_names_on_the_hub(
    path: str, model: HubName | None, dataset: HubName | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dataset may be a single word; what lies on the disk is a path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here" / "folder").mkdir(parents=True)
    assert (parse_model_name(path), parse_dataset_name(path)) == (model, dataset)


def test_a_name_is_pinned_by_a_whole_commit() -> None:
    """Branches, tags and shortened commits may move."""
    assert HubName(NAME, "a" * 40).is_pinned
    assert not any(HubName(NAME, revision).is_pinned for revision in ("", "a" * 39, "a" * 41, "A" * 40, "main"))
    assert [str(HubName(NAME)), str(HubName(NAME, "main"))] == [NAME, f"{NAME}@main"]


@pytest.fixture
def revision_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], str]:
    """The revision of the class `Theirs` in a module with this source and modification time."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def of(source: str, time: int) -> str:
        (tmp_path / "theirs.py").write_text(source)
        os.utime(tmp_path / "theirs.py", ns=(time, time))
        monkeypatch.delitem(sys.modules, "theirs", raising=False)
        return str(identity.get_revision(import_module("theirs").Theirs))

    return of


METHOD = '''
class Theirs:
    """Class."""
    def answer(self):
        """Doc."""
        return 1
'''


def test_the_statement_after_a_docstring_counts(revision_of: Callable[[str, int], str]) -> None:
    """The docstring does not."""
    first = revision_of(METHOD, 10**18)
    assert revision_of(METHOD.replace("Doc.", "Other."), 2 * 10**18) == first
    assert revision_of(METHOD.replace("return 1", "return 2"), 3 * 10**18) != first


def test_an_engine_outside_winnow_has_its_source_in_the_ledger_s_identity() -> None:
    """A changed plugin is not served its old replies."""

    class Mine(ScriptedReader):
        pass

    assert identity.get_ledger_identity(Mine(identity="x")).startswith("x/revision-source-")
