"""Which settings of a component identify its results; components declare the exceptions, everything else counts.

A class may declare

- `speed_only`: settings that change how fast it runs and not what it computes, each with the reason;
- `input_files`: settings that name files or folders whose content is part of the identity ("options.data_files" for a setting
  within another one; lists and mappings of names are followed);
- `model_paths`: settings that name models, identified by the digest of their weights, or by their commit on the hub;
- `dataset_names`: settings that may name data sets on the hub, identified by their commit;
- `revision`: number of its results' meaning, raised when equal settings give other results. Golden outputs in tests/golden
  keep it true. A class without one, and any class outside Winnow, is identified by the digest of its source instead;
- `resolve_settings(settings)`: a class method that returns the settings with every "auto" resolved.
"""

import ast
import hashlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winnow.errors import ConfigError

if TYPE_CHECKING:
    from winnow.protocols import Engine

_COMMIT = re.compile(r"[0-9a-f]{40}")
_FILE_FORMATS = frozenset({"json", "csv", "parquet", "arrow", "text", "xml", "webdataset"})
"""What `datasets.load_dataset` accepts in place of a name: builders for files."""


def speed_only(component: type) -> Mapping[str, str]:
    """Return the settings of a class that do not identify its results, with the reason of each."""
    reasons: dict[str, str] = {}
    for base in reversed(component.__mro__):
        reasons |= base.__dict__.get("speed_only", {})
    return reasons


def input_files(component: type) -> Sequence[str]:
    """Return the settings of a class that name files or folders it reads."""
    names: Sequence[str] = getattr(component, "input_files", ())
    return names


def model_paths(component: type) -> Sequence[str]:
    """Return the settings of a class that name models."""
    names: Sequence[str] = getattr(component, "model_paths", ())
    return names


def revision(component: type) -> int | str:
    """Return what identifies the code of a class: its declared revision, or the digest of its source and of its bases'.

    A declaration counts for the class alone: a subclass may compute something else. Comments, docstrings and formatting are
    not part of the digest.

    Raises:
        ConfigError: for a class without a source file, such as one that was typed into a notebook.

    """
    declared = component.__dict__.get("revision")
    if declared is not None and _is_own(component):
        return int(declared)
    digest = hashlib.sha256()
    for base in component.__mro__:
        base_revision = base.__dict__.get("revision")
        if base_revision is not None and _is_own(base):
            digest.update(f"{base.__qualname__}:{base_revision}".encode())
        elif base.__module__.partition(".")[0] not in sys.stdlib_module_names:
            digest.update(_source_digest(base).encode())
    return f"source-{digest.hexdigest()[:12]}"


def ledger_identity(engine: "Engine") -> str:
    """Return what the ledger files an engine's results under: its identity, with the revision of its code after the first.

    Revision 1 adds nothing, so that calls of ledgers from before revisions stay reachable.
    """
    code = revision(type(engine))
    return engine.identity if code == 1 else f"{engine.identity}/revision-{code}"


def _is_own(component: type) -> bool:
    return component.__module__.partition(".")[0] == "winnow"


def _source_digest(component: type) -> str:
    """Return the digest of the code of a class's module."""
    module = sys.modules.get(component.__module__)
    path = getattr(module, "__file__", None)
    if path is None:
        raise ConfigError(
            f"{component.__module__}.{component.__qualname__} is in no file, so that its code cannot be identified. Move the "
            "class into a Python file."
        )
    return _code_digest(path, Path(path).stat().st_mtime_ns)


@lru_cache(maxsize=1000)
def _code_digest(path: str, changed: int) -> str:  # noqa: ARG001 (part of the cache's key)
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def resolved(component: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a component's settings with every "auto" resolved, if its class has any."""
    resolve = getattr(component, "resolve_settings", None)
    return dict(settings) if resolve is None else dict(resolve(settings))


def dataset_names(component: type) -> Sequence[str]:
    """Return the settings of a class that may name data sets on the hub."""
    names: Sequence[str] = getattr(component, "dataset_names", ())
    return names


@dataclass(frozen=True, slots=True)
class HubName:
    """A repository on the Hugging Face hub at a revision: "owner/name@revision"; an empty revision means the latest."""

    name: str
    revision: str = ""

    @property
    def is_pinned(self) -> bool:
        """Return whether the revision is a commit, which never changes."""
        return _COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        """Return the name as it is written in settings."""
        return f"{self.name}@{self.revision}" if self.revision else self.name


def model_name(path: str) -> HubName | None:
    """Return the hub's name of a model, or None for a path on this machine."""
    name, _, revision = path.partition("@")
    local = Path(path).exists() or name.count("/") != 1 or name.startswith((".", "/")) or name.endswith(".gguf")
    return None if local else HubName(name, revision)


def dataset_name(path: str) -> HubName | None:
    """Return the hub's name of a data set, or None for a path on this machine or a file format."""
    name, _, revision = path.partition("@")
    local = Path(path).exists() or name.count("/") > 1 or name.startswith((".", "/")) or name in _FILE_FORMATS
    return None if local else HubName(name, revision)
