"""What a source file says: which of its edits count."""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module, reload
from pathlib import Path

import pytest

from tests.identity.projects import (
    BRANCHES,
    HELPERS,
    MAIN,
    METHOD,
    REORDERED,
    TOOLS,
    TYPED,
    Project,
)
from winnow.errors import ConfigError
from winnow.identity.code import get_revision


def test_the_statement_after_a_docstring_counts(revision_of: Callable[[str, int], str]) -> None:
    """The docstring does not."""
    first = revision_of(METHOD, 10**18)
    assert revision_of(METHOD.replace("Doc.", "Other."), 2 * 10**18) == first
    assert revision_of(METHOD.replace("return 1", "return 2"), 3 * 10**18) != first


def test_the_place_of_an_import_counts(project: Project) -> None:
    """Swapped branches, and the order in which two imports bind one name; not the order of
    different names.
    """
    modules = {"va": "ANSWER = 1\n", "vb": "ANSWER = 2\n"}
    first = project.compute(theirs=BRANCHES, **modules)
    swapped = BRANCHES.replace("va", "vx").replace("vb", "va").replace("vx", "vb")
    assert project.compute(theirs=swapped, **modules) != first
    twice = "from va import ANSWER\nfrom vb import ANSWER\nclass Theirs: ...\n"
    one = project.compute(theirs=twice, **modules)
    assert (
        project.compute(
            theirs=twice.replace("va", "vx").replace("vb", "va").replace("vx", "vb"), **modules
        )
        != one
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"helpers": HELPERS.replace("double(number)", "double(number + 1)")},
        {"tools": TOOLS.replace("2 *", "3 *")},
        {"helpers": HELPERS.replace("import numpy as np", "import torch as np")},
        {"theirs": MAIN.replace("from helpers import rank", "from tools import double as rank")},
        {
            "theirs": MAIN.replace(
                "def answer(self):", "def answer(self):\n        from tools import double"
            )
        },
    ],
    ids=["helper", "helper of a helper", "library", "another helper", "import in a function"],
)
def test_what_runs_counts(project: Project, changes: dict[str, str]) -> None:
    """An edit anywhere among the imports is another revision; the former source is the former
    revision.
    """
    first = project.compute()
    assert project.compute(**changes) != first
    assert project.compute() == first


@pytest.mark.parametrize(
    "changes",
    [
        {"tools": '"""A docstring."""' + TOOLS + "# a comment\n"},
        {"tools": None, "other": TOOLS, "helpers": HELPERS.replace("from tools", "from other")},
        {
            "tools": None,
            "pkg.tools": TOOLS,
            "pkg.__init__": "",
            "helpers": HELPERS.replace("from tools", "from pkg.tools"),
        },
        {"theirs": None, "mine": MAIN},
        {"helpers": REORDERED},
    ],
    ids=["comment", "renamed", "moved", "own name", "order"],
)
def test_how_it_is_written_does_not(project: Project, changes: dict[str, str | None]) -> None:
    """Neither comments, nor the names, places and order of modules."""
    first = project.compute()
    assert project.compute(**changes) == first


def test_what_only_type_checkers_import_does_not(project: Project) -> None:
    """Another helper below TYPE_CHECKING changes nothing."""
    first = project.compute(theirs=TYPED.replace("double", "triple") + MAIN)
    assert project.compute(theirs=TYPED + MAIN) == first


def test_what_runs_in_place_of_type_checking_does(project: Project) -> None:
    """The statements below `else` run."""
    one = TYPED + "else:\n    SIZE = 1\n"
    assert project.compute(theirs=one + MAIN) != project.compute(
        theirs=one.replace("1", "2") + MAIN
    )


@pytest.mark.parametrize("is_function", [True, False])
def test_code_edited_after_its_import_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_function: bool
) -> None:
    """The numbers of the imported code would be kept under the key of the edited code, also if
    another process has imported that; a file that was only touched is the same.
    """
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "edited.py"
    text = "class Theirs:\n    answer = 1\n"
    text = text.replace("answer = 1", "def answer(self): return 1") if is_function else text
    file.write_text(text)
    os.utime(file, (10**9, 10**9))
    module = import_module("edited")
    os.utime(file)
    first = get_revision(module.Theirs)
    module = reload(module)
    file.write_text(text.replace("1", "2"))
    os.utime(file, (4 * 10**9, 4 * 10**9))
    if is_function:
        subprocess.run([sys.executable, "-c", "import edited"], cwd=tmp_path, check=True)
    with pytest.raises(ConfigError, match=r"edited\.py was edited after this process imported it"):
        get_revision(module.Theirs)
    second = get_revision(reload(module).Theirs)
    assert second != first
    file.write_text(text.replace("1", "3"))
    assert get_revision(module.Theirs) == second, "what was identified is what runs"
    monkeypatch.delitem(sys.modules, "edited")
