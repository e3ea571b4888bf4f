"""The code of a component: its declared revision, or a digest of every module that it runs.

The digest covers the module of the class and, transitively, the modules that it imports outside the standard library and
installed distributions. A module of Winnow counts by the revisions that its classes declare, or by its code if they declare
none. The digest does not cover what is imported by a computed name (importlib), data files that are read at run time,
installed distributions, or the environment. Comments, docstrings, formatting, and the names, places and order of imported
modules are not part of it.
"""

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from winnow.errors import ConfigError

if TYPE_CHECKING:
    from winnow.protocols import Engine


_EMPTY = hashlib.sha256(ast.dump(ast.Module([], [])).encode()).hexdigest()
"""Digest of a file without code."""


def get_revision(component: type) -> int | str:
    """Return the declared revision of a class or, if it declares none, a digest of the code that it runs.

    A declared revision is not inherited, because a subclass may compute something else. It counts only within Winnow, whose
    tests guard it.

    Raises:
        ConfigError: If the class is in no source file, for example because it was defined in a notebook.

    """
    declared = component.__dict__.get("revision")
    if declared is not None and is_in_winnow(component.__module__):
        return int(declared)
    digest = hashlib.sha256()
    for base in component.__mro__:
        base_revision = base.__dict__.get("revision")
        if base_revision is not None and is_in_winnow(base.__module__):
            digest.update(f"{base.__qualname__}:{base_revision}".encode())
        elif base.__module__.partition(".")[0] not in sys.stdlib_module_names:
            digest.update(f"{base.__qualname__}:{_compute_class_digest(base)}".encode())
    return f"source-{digest.hexdigest()[:12]}"


def get_ledger_identity(engine: "Engine") -> str:
    """Return the identity under which the ledger, the store of finished model calls, stores the results of an engine.

    It contains the revision of the engine's code unless that is 1, so that calls stored before revisions existed are found.
    """
    code_revision = get_revision(type(engine))
    return engine.identity if code_revision == 1 else f"{engine.identity}/revision-{code_revision}"


def is_in_winnow(module: str) -> bool:
    """Return whether a module is part of Winnow."""
    return module.partition(".")[0] == "winnow"


def compute_module_digests(names: list[str]) -> dict[str, str]:
    """Return the digest of the code of each of these modules of Winnow, and of those that they import, by name.

    In contrast to revisions, they change with every edit that is not a comment, a docstring or formatting.
    """
    digests: dict[str, str] = {}
    waiting = [name for name in names if is_in_winnow(name)]
    while waiting:
        name = waiting.pop()
        path = None if name in digests else _find_source(name)
        if path is None:
            continue
        code = _read_code(str(path), path.stat().st_mtime_ns, name)
        digests[name] = code.digest[:12]
        waiting += [one.module for one in code.imports if is_in_winnow(one.module)]
    return digests


@dataclass(frozen=True, slots=True)
class _Import:
    """An import of a source file.

    Attributes:
        bound: Name that the file gives to what it imports; "" if the module only runs, as parents of a module do.
        module: Name of the module.
        name: Name that is imported from the module; "" for the module itself.

    """

    bound: str
    module: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Code:
    """What a source file says.

    Attributes:
        digest: Digest of its syntax tree without docstrings and imports.
        imports: Its imports, without those that only type checkers run.
        revisions: Revisions that its classes declare, such as "PostFusion:5".

    """

    digest: str
    imports: tuple[_Import, ...]
    revisions: tuple[str, ...]


def _compute_class_digest(component: type) -> str:
    """Return the digest of the module that contains a class, and of all that it imports."""
    module = sys.modules.get(component.__module__)
    if getattr(module, "__file__", None) is None:
        raise ConfigError(
            f"{component.__module__}.{component.__qualname__} is in no file, so its code cannot be identified. Move the "
            "class into a Python file."
        )
    return _compute_module_digest(component.__module__, {})


def _compute_module_digest(name: str, digests: dict[str, str]) -> str:
    """Return the digest of a module and of what its imports bind.

    Args:
        name: Name of the module.
        digests: Digests of the modules so far. A module that is being computed has the digest of its own code there, so that
            imports in a circle end.

    """
    path = _find_source(name)
    if path is None:
        return f"module {name}"
    if name in digests:
        return digests[name]
    code = _read_code(str(path), path.stat().st_mtime_ns, name)
    is_first = not digests
    digests[name] = code.digest
    if not is_first and is_in_winnow(name) and code.revisions:
        digests[name] = ",".join(code.revisions)
        return digests[name]
    bindings = sorted(
        [one.bound, one.name, _compute_module_digest(one.module, digests)]
        for one in code.imports
        if one.bound or not _is_empty(one.module)
    )
    digests[name] = hashlib.sha256(repr((code.digest, bindings)).encode()).hexdigest()
    return digests[name]


def _is_empty(module: str) -> bool:
    """Return whether a module has no code, as most packages."""
    path = _find_source(module)
    return path is not None and _read_code(str(path), path.stat().st_mtime_ns, module) == _Code(_EMPTY, (), ())


def _find_source(name: str) -> Path | None:
    """Return the source file of a module, or None in the standard library, in an installed distribution, and without one."""
    if name.partition(".")[0] in sys.stdlib_module_names:
        return None
    loaded = sys.modules.get(name)
    file = getattr(loaded, "__file__", None)
    if loaded is None:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError, AttributeError):
            return None
        file = spec.origin if spec else None
    if file is None or not str(file).endswith(".py"):
        return None
    path = Path(file)
    is_installed = not is_in_winnow(name) and {"site-packages", "dist-packages"} & set(path.parts)
    return None if is_installed or not path.is_file() else path


@lru_cache(maxsize=2000)
def _read_code(path: str, modified_ns: int, module: str) -> _Code:  # noqa: ARG001 (the time is part of the cache's key)
    """Parse a source file."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    package = module if Path(path).name == "__init__.py" else module.rpartition(".")[0]
    imports = tuple(dict.fromkeys(_iter_imports(tree, package)))
    revisions = tuple(sorted(_iter_revisions(tree)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:] or ([] if isinstance(node, ast.Module) else [ast.Pass()])
    without_imports = ast.dump(_ImportRemover().visit(tree))
    return _Code(hashlib.sha256(without_imports.encode()).hexdigest(), imports, revisions)


class _ImportRemover(ast.NodeTransformer):
    """Replaces imports, which `_iter_imports` lists, by nothing."""

    def visit_Import(self, node: ast.Import) -> None:
        """Remove an import of modules."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Remove an import of names."""


def _iter_imports(tree: ast.AST, package: str) -> Iterator[_Import]:
    """Yield the imports of a syntax tree at any depth, except those of type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for child in node.orelse:
                yield from _iter_imports(ast.Module([child], []), package)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield _Import(alias.asname or alias.name, alias.name)
                yield from _iter_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            yield from _iter_from(node, package)
        else:
            yield from _iter_imports(node, package)


def _iter_from(node: ast.ImportFrom, package: str) -> Iterator[_Import]:
    """Yield what `from ... import ...` binds: names of a module, or modules of a package."""
    parts = package.split(".")
    parents = parts[: len(parts) - node.level + 1] if node.level else []
    base = ".".join([*parents, *([node.module] if node.module else [])])
    yield from _iter_parents(base)
    for alias in node.names:
        inner = f"{base}.{alias.name}"
        if alias.name != "*" and _find_source(inner) is not None and Path(str(_find_source(base))).name == "__init__.py":
            yield _Import(alias.asname or alias.name, inner)
            yield _Import("", base)
        else:
            yield _Import(alias.asname or alias.name, base, alias.name)


def _iter_parents(module: str) -> Iterator[_Import]:
    """Yield the packages around a module, whose code its import runs."""
    parts = module.split(".")
    for length in range(1, len(parts)):
        yield _Import("", ".".join(parts[:length]))


def _iter_revisions(tree: ast.Module) -> Iterator[str]:
    """Yield the revisions that the classes of a module declare, such as "PostFusion:5"."""
    for class_node in tree.body:
        for item in class_node.body if isinstance(class_node, ast.ClassDef) else ():
            if isinstance(item, ast.AnnAssign) and ast.unparse(item.target) == "revision" and item.value is not None:
                yield f"{getattr(class_node, 'name', '')}:{ast.unparse(item.value)}"
