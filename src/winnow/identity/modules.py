"""Modules by their names: where the source of one is, and to whom it belongs."""

import importlib.util
import sys
import sysconfig
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path

_STANDARD_LIBRARY = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})


def is_in_winnow(module: str) -> bool:
    """Return whether a module is part of Winnow."""
    return module.partition(".")[0] == "winnow"


def identify_without_source(name: str) -> str:
    """Return the identity of a module without source: its name, or "" for a namespace package."""
    spec = _find_spec(name)
    is_folder = (
        spec is not None and spec.origin is None and spec.submodule_search_locations is not None
    )
    return "" if is_folder else f"module {name}"


def is_in_standard_library(name: str) -> bool:
    """Return whether a module belongs to Python, judged by location because names may clash."""
    if name.partition(".")[0] not in sys.stdlib_module_names:
        return False
    spec = _find_spec(name)
    origin = getattr(sys.modules.get(name), "__file__", None) or (spec.origin if spec else None)
    return origin in (None, "built-in", "frozen") or any(
        Path(origin).is_relative_to(folder) for folder in _STANDARD_LIBRARY
    )


def _find_spec(name: str) -> ModuleSpec | None:
    """Return a module's spec, or None. Only the packages around it are imported to find it."""
    module = sys.modules.get(name)
    parent = name.rpartition(".")[0]
    try:
        if module is None and is_in_winnow(parent) and not _is_package(parent):
            return None
        return getattr(module, "__spec__", None) or importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None


def _is_package(name: str) -> bool:
    """Return whether a module can have others within it."""
    if (module := sys.modules.get(name)) is not None:
        return hasattr(module, "__path__")
    spec = _find_spec(name)
    return spec is not None and spec.submodule_search_locations is not None


def find_source(name: str) -> Path | None:
    """Return a module's source file, or None if it has none or is installed or part of Python."""
    if (
        not name
        or is_in_standard_library(name)
        or (not is_in_winnow(name) and _is_installed(name.partition(".")[0]))
    ):
        return None
    spec = _find_spec(name)
    file = getattr(sys.modules.get(name), "__file__", None) or (spec.origin if spec else None)
    if file is None or not str(file).endswith(".py"):
        return None
    path = Path(file)
    return (
        None
        if (not is_in_winnow(name) and _is_in_distribution(file)) or not path.is_file()
        else path
    )


def _is_installed(package: str) -> bool:
    """Return whether a top-level package and all its search paths are in installed distributions.

    To ask for the place of a module within it instead would import the packages around that module,
    some for seconds.
    """
    spec = _find_spec(package)
    if spec is None or spec.origin is None or not _is_in_distribution(spec.origin):
        return False
    places = getattr(sys.modules.get(package), "__path__", None)  # as it has set it itself
    if places is None and _sets_path(spec.origin):
        return False
    places = spec.submodule_search_locations if places is None else places
    return all(map(_is_in_distribution, places or ()))


@cache
def _sets_path(file: str) -> bool:
    """Return whether a package says itself where its modules are, so that they may be anywhere."""
    path = Path(file)
    return path.suffix == ".py" and b"__path__" in path.read_bytes()


def _is_in_distribution(path: str) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(path).parts)
