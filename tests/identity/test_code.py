"""The code by which a class is identified: its module and whatever that imports, however it is
written.
"""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from weakref import WeakKeyDictionary

import pytest

from tests.identity.projects import MAIN, TOOLS, Project
from winnow.errors import ConfigError
from winnow.identity import code, source
from winnow.identity.code import (
    compute_module_digests,
    declare_settings,
    get_ledger_identity,
    get_revision,
)
from winnow.strategies.post_fusion import PostFusion
from winnow.testing import ScriptedReader


@pytest.mark.parametrize(
    "importing",
    [
        "from nsp import helper",
        "from . import helper",
        "from .helper import rank",
        "import nsp.helper",
        "from pkg import *",
    ],
)
def test_folders_of_any_kind_are_followed(project: Project, importing: str) -> None:
    """Without `__init__.py`, relative, and a package whose `__all__` names modules."""
    helper = "def rank():\n    return 1\n"
    main = f"{importing}\nclass Theirs: ...\n"
    names = {
        "theirs": None,
        "nsp.comp": main,
        "nsp.helper": helper,
        "pkg.helper": helper,
        "pkg.__init__": "__all__ = ['helper']\n",
    }
    first = project.compute(**names)
    changed = helper.replace("1", "2")
    key = "pkg.helper" if "pkg" in importing else "nsp.helper"
    assert project.compute(**{**names, key: changed}) != first
    assert project.compute(**names) == first


@pytest.mark.parametrize("reads", ["type(self).__doc__", "inspect.getdoc(self)"])
@pytest.mark.parametrize("reader", ["theirs", "tools"])
def test_docstrings_that_are_read_count(project: Project, reader: str, reads: str) -> None:
    """As a prompt, in whichever module; elsewhere they do not."""
    told = f"\ndef tell(self):\n    return {reads}\n"
    main = MAIN.replace("class Theirs:", 'class Theirs:\n    """Answer in one word."""')
    assert project.compute(theirs=main) == project.compute(theirs=MAIN)
    first = main + told if reader == "theirs" else main
    tools = TOOLS + told if reader == "tools" else TOOLS
    other = first.replace("in one word", "at length")
    assert project.compute(theirs=first, tools=tools) != project.compute(theirs=other, tools=tools)


def test_imports_in_a_circle_end(project: Project) -> None:
    """And count."""
    circle = TOOLS + "\ndef late():\n    import theirs\n"
    assert project.compute(tools=circle) != project.compute(tools=circle.replace("2 *", "3 *"))


def test_modules_of_winnow_count_by_their_revisions(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit under the same revision changes nothing of one's own; a module without one counts by
    its code.
    """
    first = project.compute()
    read = source.read_code

    def edited(name: str, **fields: object) -> Callable[..., object]:
        monkeypatch.setattr(source, "_LOADED", WeakKeyDictionary())

        def edit(path: str, time: int, module: str, **options: bool) -> object:
            own = read(path, time, module, **options)
            return replace(own, **fields) if module == name else own

        return edit

    monkeypatch.setattr(
        source, "read_code", edited("winnow.strategies.post_fusion", digest="other")
    )
    assert project.compute() == first
    monkeypatch.setattr(
        source, "read_code", edited("winnow.strategies.post_fusion", revisions=("PostFusion:99",))
    )
    assert project.compute() != first
    own = MAIN.replace("post_fusion import PostFusion", "vote import Vote")
    monkeypatch.setattr(source, "read_code", read)
    monkeypatch.setattr(source, "_LOADED", WeakKeyDictionary())
    plain = project.compute(theirs=own)
    monkeypatch.setattr(source, "read_code", edited("winnow.strategies.vote", digest="other"))
    assert project.compute(theirs=own) != plain


def test_what_runs_is_what_was_imported(project: Project) -> None:
    """An edit of a file after its import is another revision in the next process, or when the
    module is imported again, as in a notebook.
    """
    first = project.compute()
    file = project.folder / "theirs.py"
    file.write_text(MAIN.replace("PostFusion", "Vote").replace("post_fusion", "vote"))
    assert str(get_revision(sys.modules["theirs"].Theirs)) == first
    importlib.reload(sys.modules["theirs"])
    assert str(get_revision(sys.modules["theirs"].Theirs)) != first


@pytest.mark.parametrize("name", ["profile", "trace"])
def test_a_module_with_the_name_of_python_s_is_one_s_own(project: Project, name: str) -> None:
    """The place decides; Python's own modules count by name."""
    own = "class Theirs:\n    value = 1\n"
    revisions = {
        project.compute(**{"theirs": None, name: own.replace("1", value)}) for value in "12"
    }
    sys.modules.pop(name, None)
    assert len(revisions) == 2


@pytest.mark.parametrize("seed", ["1", "2"])
def test_module_digests_do_not_depend_on_the_hashes_of_a_process(seed: str) -> None:
    """Sets of constants have one order."""
    program = (
        "from winnow.identity.code import compute_module_digests as f;"
        "d = f(['winnow.readers.choices', 'winnow.formats.secrets']); print(sorted(d.items()))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": one},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for one in ("0", seed)
    }
    assert len(outputs) == 1


def test_module_digests_are_of_all_modules_behind() -> None:
    """Of Winnow alone, with those that they import."""
    digests = compute_module_digests(["winnow.strategies.post_fusion", "json"])
    assert {
        "winnow.strategies.post_fusion",
        "winnow.strategies.vote",
        "winnow.records",
    } <= digests.keys()
    assert all(name.startswith("winnow") and len(digest) == 6 for name, digest in digests.items())


def test_a_module_that_was_edited_during_a_run_has_no_digest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What its file says now is not what the process imported."""
    file = Path(sys.modules["winnow.strategies.vote"].__file__ or "")
    assert (
        compute_module_digests(["winnow.strategies.vote"])["winnow.strategies.vote"] != code.EDITED
    )
    monkeypatch.setattr(code, "STARTED", file.stat().st_mtime - 1)
    digests = compute_module_digests(["winnow.strategies.vote"])
    assert digests["winnow.strategies.vote"] == code.EDITED
    assert code.EDITED not in {digests[name] for name in digests if _modified(name) <= code.STARTED}
    monkeypatch.setattr(code, "STARTED", file.stat().st_mtime)
    assert (
        compute_module_digests(["winnow.strategies.vote"])["winnow.strategies.vote"] != code.EDITED
    )


def _modified(module: str) -> float:
    """Time at which the file of a module was last written."""
    return Path(import_module(module).__file__ or "").stat().st_mtime


def test_an_engine_outside_winnow_has_its_source_in_the_ledger_s_identity() -> None:
    """A changed plugin is not served its old replies."""

    class Mine(ScriptedReader):
        pass

    assert get_ledger_identity(Mine(identity="x")).startswith("x/revision-source-")


def test_settings_of_an_engine_without_a_revision_are_in_the_ledger_s_identity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also in Winnow's own folder, where a new reader is written."""

    class Mine(ScriptedReader):
        """A reader whose identity forgets its settings."""

    monkeypatch.setattr(Mine, "__module__", "winnow.readers.mine")
    monkeypatch.setattr(code, "_compute_class_digest", lambda _: "digest")
    one, other = Mine(), Mine()
    declare_settings(one, "1")
    declare_settings(other, "2")
    assert get_ledger_identity(one) != get_ledger_identity(other)
    monkeypatch.setattr(Mine, "revision", 1, raising=False)
    tested = Mine()
    declare_settings(tested, "1")
    assert get_ledger_identity(tested) == tested.identity


@pytest.mark.parametrize("revision", ["one", 1.5, None])
def test_a_revision_is_a_whole_number(revision: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything else is refused by the name of its class; none at all is keyed by the code."""
    monkeypatch.setattr(PostFusion, "revision", revision)
    if revision is None:
        assert str(get_revision(PostFusion)).startswith("source-")
        return
    message = f"post_fusion.PostFusion: revision must be a whole number.*received {revision!r}"
    with pytest.raises(ConfigError, match=message):
        get_revision(PostFusion)
