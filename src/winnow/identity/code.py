"""The code of a component: its declared revision, or a digest of every module that it runs.

The digest covers the module of the class and, transitively, the modules that it imports outside the
standard library and installed distributions. A module of Winnow counts by the revisions that its
classes declare, or by its code if they declare none. The digest does not cover what is imported by
a computed name (importlib), data files that are read at run time, installed distributions, or the
environment. Comments, formatting, and the names, places and order of imported modules are not part
of it; docstrings are if one of these modules reads docstrings.
"""

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from winnow.errors import ConfigError
from winnow.identity.modules import (
    find_source,
    identify_without_source,
    is_in_standard_library,
    is_in_winnow,
)
from winnow.identity.source import STARTED, Code, is_empty, read_loaded

if TYPE_CHECKING:
    from winnow.protocols import Engine


EDITED = "edited while it ran"


def get_revision(component: type) -> int | str:
    """Return the declared revision of a class or, without one, a digest of the code that it runs.

    A declared revision is not inherited, because a subclass may compute something else. It counts
    only within Winnow, whose tests guard it.

    Raises:
        ConfigError: If the class is in no source file, for example because it was defined in a
            notebook, or if its revision is not a whole number.
    """
    revision = component.__dict__.get("revision")
    if revision is not None and is_in_winnow(component.__module__):
        if not isinstance(revision, int):
            raise ConfigError(
                f"{component.__module__}.{component.__qualname__}: revision must be a whole "
                f"number, as in `revision: ClassVar[int] = 1`; received {revision!r}."
            )
        return revision
    digest = hashlib.sha256()
    for base in component.__mro__:
        base_revision = base.__dict__.get("revision")
        if base_revision is not None and is_in_winnow(base.__module__):
            digest.update(f"{base.__qualname__}:{base_revision}".encode())
        elif not is_in_standard_library(base.__module__):
            digest.update(f"{base.__qualname__}:{_compute_class_digest(base)}".encode())
    return f"source-{digest.hexdigest()[:12]}"


def get_ledger_identity(engine: "Engine") -> str:
    """Return the identity under which the ledger of model calls stores an engine's results.

    It has the revision of the engine's code unless that is 1, as in calls stored before revisions
    existed, and a digest of the settings of a class without one (see `declare_settings`).
    """
    code_revision = get_revision(type(engine))
    settings = getattr(engine, _SETTINGS, "")
    identity = f"{engine.identity}/settings-{settings}" if settings else engine.identity
    return identity if code_revision == 1 else f"{identity}/revision-{code_revision}"


def has_tested_revision(component: type) -> bool:
    """Return whether a class of Winnow declares a revision, so that tests guard what it is."""
    return is_in_winnow(component.__module__) and "revision" in component.__dict__


def declare_settings(engine: object, digest: str) -> None:
    """Add the digest of an engine's settings to its ledger identity if no test guards its revision.

    The author of such a class says with `identity` what its results are filed under, and may forget
    a setting.

    Raises:
        ConfigError: If the class has slots, so that it cannot keep the digest.
    """
    if has_tested_revision(type(engine)):
        return
    try:
        object.__setattr__(engine, _SETTINGS, digest)
    except AttributeError as error:
        raise ConfigError(
            f"{type(engine).__qualname__} has slots. Remove them, so that its settings can be "
            "identified."
        ) from error


def compute_module_digests(names: Iterable[str]) -> dict[str, str]:
    """Return the code digests of Winnow's modules among these and all that they import, by name.

    In contrast to revisions, they change with every edit that is not a comment, a docstring or
    formatting. A module whose file was edited since this process started is no longer the one that
    runs; it has `EDITED` in place of a digest.
    """
    seen_names: set[str] = set()
    digests: dict[str, str] = {}
    stack = list(names)
    while stack:
        name = stack.pop()
        path = None if name in seen_names else find_source(name)
        seen_names.add(name)
        if path is None:
            continue
        code = read_loaded(path, name, compiles=True)
        if name.partition(".")[0] in ("winnow", "flows") and path.stat().st_mtime > STARTED:
            digests[name] = EDITED
        elif name.partition(".")[0] in ("winnow", "flows"):
            digests[name] = hashlib.sha256(repr((code.digest, code.runs)).encode()).hexdigest()[:6]
        stack += [one.module for run in code.runs for one in run]
    return digests


_SETTINGS = "_winnow_settings"
"""Attribute of an engine with the digest of its settings."""


def _compute_class_digest(component: type) -> str:
    """Return the digest of a class's module, wherever it is installed, and of all its imports."""
    module = sys.modules.get(component.__module__)
    file = getattr(module, "__file__", None)
    if file is None:
        raise ConfigError(
            f"{component.__module__}.{component.__qualname__} is in no file, so its code cannot be "
            "identified. Move the class into a Python file."
        )
    codes: dict[str, Code] = {}
    digest = _compute_module_digest(component.__module__, {}, codes, Path(file))
    if not any(code.reads_docstrings for code in codes.values()):
        return digest
    docstrings = sorted(code.docstrings for code in codes.values())
    return hashlib.sha256(repr((digest, docstrings)).encode()).hexdigest()


def _compute_module_digest(
    name: str, digests: dict[str, str], codes: dict[str, Code], path: Path | None = None
) -> str:
    """Return the digest of a module, with each import replaced by the digest of what it imports.

    Successive imports that bind different names may have any order.

    Args:
        name: Name of the module.
        digests: Digests of the modules so far. A module that is being computed has a mark there, so
            that imports in a circle end.
        codes: Code of the modules so far that count by their code, by name.
        path: Source file of the module that contains the class; others are found by their names.
    """
    if name in digests:
        return digests[name]
    source = path or find_source(name)
    if source is None:
        return identify_without_source(name)
    code = read_loaded(source, name)
    if path is None and is_in_winnow(name) and code.revisions:
        digests[name] = ",".join(code.revisions)
        return digests[name]
    digests[name], codes[name] = "imports itself", code
    runs = []
    for imports in code.runs:
        run = [
            [one.bound, one.name, _compute_module_digest(one.module, digests, codes)]
            for one in imports
            if one.bound or not is_empty(one.module)
        ]
        bound_names = [one[0] for one in run if one[0]]
        runs.append(sorted(run) if len(set(bound_names)) == len(bound_names) else run)
    digests[name] = hashlib.sha256(repr((code.digest, runs)).encode()).hexdigest()
    return digests[name]
