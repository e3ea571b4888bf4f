"""The code by which a class is identified: its module and whatever that imports, however it is
written.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from weakref import WeakKeyDictionary

import pytest

from winnow.identity import code
from winnow.identity.code import compute_module_digests, get_ledger_identity, get_revision
from winnow.testing import ScriptedReader


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


MAIN = """
from helpers import rank
from winnow.strategies.post_fusion import PostFusion

class Theirs:
    def answer(self):
        return rank(1)
"""
HELPERS = """
import numpy as np
from tools import double

def rank(number):
    return double(number) + int(np.abs(1))
"""
TOOLS = """
def double(number):
    return 2 * number
"""


class Project:
    """Modules of one's own; every revision is that of a process that has imported nothing of them
    yet.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        self.folder, self.files, self.time = (
            folder,
            {"theirs": MAIN, "helpers": HELPERS, "tools": TOOLS},
            10**18,
        )

    def compute(self, **changes: str | None) -> str:
        """The revision of the class if these modules have other sources, or do not exist."""
        for file in self.folder.rglob("*.py"):
            file.unlink()
        self.time += 10**12
        names = {**self.files, **changes}
        for name, source in names.items():
            if source is not None:
                file = self.folder / f"{name.replace('.', '/')}.py"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(source)
                os.utime(file, ns=(self.time, self.time))
        for name in [*self.files, *changes]:
            sys.modules.pop(name, None)
            sys.modules.pop(name.partition(".")[0], None)
        main = next(
            name
            for name, source in names.items()
            if source is not None and "class Theirs" in source
        )
        import_module(main.partition(".")[0])
        return str(get_revision(import_module(main).Theirs))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(tmp_path, monkeypatch)


BRANCHES = """
import os
if os.environ.get("NOPE"):
    from va import ANSWER
else:
    from vb import ANSWER

class Theirs:
    def answer(self):
        return ANSWER
"""


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


REORDERED = HELPERS.replace(
    "import numpy as np\nfrom tools import double", "from tools import double\nimport numpy as np"
)
TYPED = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tools import double\n"


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
    read = code._read_code

    def edited(name: str, **fields: object) -> Callable[..., object]:
        monkeypatch.setattr(code, "_LOADED", WeakKeyDictionary())

        def edit(path: str, time: int, module: str, **options: bool) -> object:
            own = read(path, time, module, **options)
            return replace(own, **fields) if module == name else own

        return edit

    monkeypatch.setattr(code, "_read_code", edited("winnow.strategies.post_fusion", digest="other"))
    assert project.compute() == first
    monkeypatch.setattr(
        code, "_read_code", edited("winnow.strategies.post_fusion", revisions=("PostFusion:99",))
    )
    assert project.compute() != first
    own = MAIN.replace("post_fusion import PostFusion", "vote import Vote")
    monkeypatch.setattr(code, "_read_code", read)
    monkeypatch.setattr(code, "_LOADED", WeakKeyDictionary())
    plain = project.compute(theirs=own)
    monkeypatch.setattr(code, "_read_code", edited("winnow.strategies.vote", digest="other"))
    assert project.compute(theirs=own) != plain


def test_what_runs_is_what_was_imported(project: Project) -> None:
    """An edit of a file after its import is no other revision of this process, but of the next."""
    first = project.compute()
    file = project.folder / "theirs.py"
    file.write_text(MAIN.replace("PostFusion", "Vote").replace("post_fusion", "vote"))
    assert str(get_revision(sys.modules["theirs"].Theirs)) == first


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
    monkeypatch.setattr(code, "_STARTED", file.stat().st_mtime - 1)
    digests = compute_module_digests(["winnow.strategies.vote"])
    assert digests["winnow.strategies.vote"] == code.EDITED
    assert code.EDITED not in {
        digests[name] for name in digests if _modified(name) <= code._STARTED
    }
    monkeypatch.setattr(code, "_STARTED", file.stat().st_mtime)
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
