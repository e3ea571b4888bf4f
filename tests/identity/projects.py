"""Projects of several modules whose code is identified, written in several ways."""

import os
import sys
from importlib import import_module
from pathlib import Path

import pytest

from winnow.identity.code import get_revision

METHOD = '''
class Theirs:
    """Class."""
    def answer(self):
        """Doc."""
        return 1
'''


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


REORDERED = HELPERS.replace(
    "import numpy as np\nfrom tools import double", "from tools import double\nimport numpy as np"
)


TYPED = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tools import double\n"
