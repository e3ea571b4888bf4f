"""The identity of a component: the settings and the code that determine its results.

Stored results are reused only if the identity of the component that computed them is unchanged. Every setting is part of the
identity unless the class of the component declares otherwise. A class may declare

- `speed_only`: settings that change how fast it runs but not what it computes, each with the reason;
- `search_only`: settings of a retriever that change what a search returns but not the index, so that indexes are shared;
- `input_files`: settings that name files or folders, whose content is part of the identity. A setting within another one is
  written as "options.data_files". Names in lists and mappings are found too;
- `model_paths`: settings that name models. A model is identified by the digest of its weights, or by its commit on the hub;
- `dataset_names`: settings that may name data sets on the hub, which are identified by their commit;
- `revision`: version number of its results, which is raised when equal settings give other results. Tests compare outputs with
  those stored for the revision (tests/golden). A class without a revision, and any class outside Winnow, is identified by the
  digest of its source code instead;
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
"""Names of file formats that `datasets.load_dataset` accepts in place of the name of a data set."""


def get_speed_only_settings(component: type) -> Mapping[str, str]:
    """Return the settings that a class and its bases declare not to affect their results, with the reason for each."""
    reasons: dict[str, str] = {}
    for base in reversed(component.__mro__):
        reasons |= base.__dict__.get("speed_only", {})
    return reasons


def get_input_file_settings(component: type) -> Sequence[str]:
    """Return the settings of a class that name files or folders it reads."""
    names: Sequence[str] = getattr(component, "input_files", ())
    return names


def get_model_path_settings(component: type) -> Sequence[str]:
    """Return the settings of a class that name models."""
    names: Sequence[str] = getattr(component, "model_paths", ())
    return names


def get_revision(component: type) -> int | str:
    """Return the declared revision of a class or, if it declares none, a digest of its source code and that of its bases.

    A declared revision is not inherited, because a subclass may compute something else. Comments, docstrings and formatting
    are not part of the digest.

    Raises:
        ConfigError: If the class is in no source file, for example because it was defined in a notebook.

    """
    declared = component.__dict__.get("revision")
    if declared is not None and _is_in_winnow(component):
        return int(declared)
    digest = hashlib.sha256()
    for base in component.__mro__:
        base_revision = base.__dict__.get("revision")
        if base_revision is not None and _is_in_winnow(base):
            digest.update(f"{base.__qualname__}:{base_revision}".encode())
        elif base.__module__.partition(".")[0] not in sys.stdlib_module_names:
            digest.update(_compute_source_digest(base).encode())
    return f"source-{digest.hexdigest()[:12]}"


def get_ledger_identity(engine: "Engine") -> str:
    """Return the identity under which the ledger, the store of finished model calls, stores the results of an engine.

    It contains the revision of the engine's code unless that is 1, so that calls stored before revisions existed are found.
    """
    code_revision = get_revision(type(engine))
    return engine.identity if code_revision == 1 else f"{engine.identity}/revision-{code_revision}"


def _is_in_winnow(component: type) -> bool:
    """Return whether a class is part of Winnow."""
    return component.__module__.partition(".")[0] == "winnow"


def _compute_source_digest(component: type) -> str:
    """Return the digest of the code of the module that contains a class."""
    module = sys.modules.get(component.__module__)
    path = getattr(module, "__file__", None)
    if path is None:
        raise ConfigError(
            f"{component.__module__}.{component.__qualname__} is in no file, so its code cannot be identified. Move the "
            "class into a Python file."
        )
    return _compute_code_digest(path, Path(path).stat().st_mtime_ns)


@lru_cache(maxsize=1000)
def _compute_code_digest(path: str, modified_ns: int) -> str:  # noqa: ARG001 (part of the cache's key)
    """Compute a digest of the code in a file, without docstrings, comments and formatting."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def resolve_component_settings(component: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a component, with every "auto" resolved if its class declares `resolve_settings`."""
    resolve = getattr(component, "resolve_settings", None)
    return dict(settings) if resolve is None else dict(resolve(settings))


def get_dataset_name_settings(component: type) -> Sequence[str]:
    """Return the settings of a class that may name data sets on the hub."""
    names: Sequence[str] = getattr(component, "dataset_names", ())
    return names


@dataclass(frozen=True, slots=True)
class HubName:
    """The name of a repository on the Hugging Face hub, with a revision. An empty revision means the latest one."""

    name: str
    revision: str = ""

    @property
    def is_pinned(self) -> bool:
        """Return whether the revision is a commit, which never changes."""
        return _COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        """Return the name as it is written in settings: "owner/name@revision", or "owner/name" without a revision."""
        return f"{self.name}@{self.revision}" if self.revision else self.name


def parse_model_name(path: str) -> HubName | None:
    """Return the hub name of a model, or None if `path` is a path on this machine."""
    name, _, revision = path.partition("@")
    is_local = Path(path).exists() or name.count("/") != 1 or name.startswith((".", "/")) or name.endswith(".gguf")
    return None if is_local else HubName(name, revision)


def parse_dataset_name(path: str) -> HubName | None:
    """Return the hub name of a data set, or None if `path` is a path on this machine or the name of a file format."""
    name, _, revision = path.partition("@")
    is_local = Path(path).exists() or name.count("/") > 1 or name.startswith((".", "/")) or name in _FILE_FORMATS
    return None if is_local else HubName(name, revision)
