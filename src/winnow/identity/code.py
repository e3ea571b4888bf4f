"""The code of a component: its declared revision, or a digest of every module that it runs.

The digest covers the module of the class and, transitively, the modules that it imports outside the
standard library and installed distributions. A module of Winnow counts by the revisions that its
classes declare, or by its code if they declare none. The digest does not cover what is imported by
a computed name (importlib), data files that are read at run time, installed distributions, or the
environment. Comments, docstrings, formatting, and the names, places and order of imported modules
are not part of it.
"""

import ast
import hashlib
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from winnow.errors import ConfigError
from winnow.identity.modules import (
    find_source,
    identify_without_source,
    is_in_standard_library,
    is_in_winnow,
)

if TYPE_CHECKING:
    from winnow.protocols import Engine


EDITED = "edited while it ran"
_STARTED = time.time()
"""Time at which this process began to import Winnow."""
_EMPTY = hashlib.sha256(ast.dump(ast.Module([], [])).encode()).hexdigest()
"""Digest of a file without code."""


def get_revision(component: type) -> int | str:
    """Return the declared revision of a class or, if it declares none, a digest of the code that it
    runs.

    A declared revision is not inherited, because a subclass may compute something else. It counts
    only within Winnow, whose tests guard it.

    Raises:
        ConfigError: If the class is in no source file, for example because it was defined in a
            notebook.

    """
    declared = component.__dict__.get("revision")
    if declared is not None and is_in_winnow(component.__module__):
        return int(declared)
    digest = hashlib.sha256()
    for base in component.__mro__:
        base_revision = base.__dict__.get("revision")
        if base_revision is not None and is_in_winnow(base.__module__):
            digest.update(f"{base.__qualname__}:{base_revision}".encode())
        elif not is_in_standard_library(base.__module__):
            digest.update(f"{base.__qualname__}:{_compute_class_digest(base)}".encode())
    return f"source-{digest.hexdigest()[:12]}"


def get_ledger_identity(engine: "Engine") -> str:
    """Return the identity under which the ledger, the store of finished model calls, stores the
    results of an engine.

    It has the revision of the engine's code unless that is 1, as in calls stored before revisions
    existed, and a digest of the settings of a class outside Winnow (see `declare_settings`).
    """
    code_revision = get_revision(type(engine))
    settings = getattr(engine, _SETTINGS, "")
    identity = f"{engine.identity}/settings-{settings}" if settings else engine.identity
    return identity if code_revision == 1 else f"{identity}/revision-{code_revision}"


def declare_settings(engine: object, digest: str) -> None:
    """Make the digest of an engine's settings part of its identity in the ledger, if its class is
    outside Winnow.

    The author of such a class says with `identity` what its results are filed under, and may forget
    a setting. Winnow's own classes are tested.

    Raises:
        ConfigError: If the class has slots, so that it cannot keep the digest.

    """
    if is_in_winnow(type(engine).__module__):
        return
    try:
        object.__setattr__(engine, _SETTINGS, digest)
    except AttributeError as error:
        raise ConfigError(
            f"{type(engine).__qualname__} has slots. Remove them, so that its settings can be "
            "identified."
        ) from error


def compute_module_digests(names: Iterable[str]) -> dict[str, str]:
    """Return the digest of the code of Winnow's modules behind these modules, themselves and all
    that they import, by name.

    In contrast to revisions, they change with every edit that is not a comment, a docstring or
    formatting. A module whose file was edited since this process started is no longer the one that
    runs; it has `EDITED` in place of a digest.
    """
    seen: set[str] = set()
    digests: dict[str, str] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        path = None if name in seen else find_source(name)
        seen.add(name)
        if path is None:
            continue
        code = _read_loaded(path, name, compiles=True)
        if name.partition(".")[0] in ("winnow", "flows") and path.stat().st_mtime > _STARTED:
            digests[name] = EDITED
        elif name.partition(".")[0] in ("winnow", "flows"):
            digests[name] = hashlib.sha256(repr((code.digest, code.runs)).encode()).hexdigest()[:6]
        waiting += [one.module for run in code.runs for one in run]
    return digests


_SETTINGS = "_winnow_settings"
"""Attribute of an engine with the digest of its settings."""


_PLACE = ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
"""Place of new nodes at the top of a module."""


@dataclass(frozen=True, slots=True)
class _Import:
    """An import of a source file.

    Attributes:
        bound: Name that the file gives to what it imports; "" if the module only runs, as parents
            of a module do.
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
        digest: Digest of its code without docstrings, in which numbered marks have the places of
            runs of successive imports.
        runs: The runs of imports, in the order of their marks.
        revisions: Revisions that its classes declare, such as "PostFusion:5".

    """

    digest: str
    runs: tuple[tuple[_Import, ...], ...]
    revisions: tuple[str, ...]


def _compute_class_digest(component: type) -> str:
    """Return the digest of the module that contains a class, wherever it is installed, and of all
    that it imports.
    """
    module = sys.modules.get(component.__module__)
    file = getattr(module, "__file__", None)
    if file is None:
        raise ConfigError(
            f"{component.__module__}.{component.__qualname__} is in no file, so its code cannot be "
            "identified. Move the class into a Python file."
        )
    return _compute_module_digest(component.__module__, {}, Path(file))


def _compute_module_digest(name: str, digests: dict[str, str], path: Path | None = None) -> str:
    """Return the digest of a module, in which the digests of what it imports have the places of the
    imports.

    Successive imports that bind different names may have any order.

    Args:
        name: Name of the module.
        digests: Digests of the modules so far. A module that is being computed has a mark there, so
            that imports in a circle end.
        path: Source file of the module that contains the class; others are found by their names.

    """
    if name in digests:
        return digests[name]
    source = path or find_source(name)
    if source is None:
        return identify_without_source(name)
    code = _read_loaded(source, name)
    if path is None and is_in_winnow(name) and code.revisions:
        digests[name] = ",".join(code.revisions)
        return digests[name]
    digests[name] = "imports itself"
    runs = []
    for imports in code.runs:
        run = [
            [one.bound, one.name, _compute_module_digest(one.module, digests)]
            for one in imports
            if one.bound or not _is_empty(one.module)
        ]
        bound = [one[0] for one in run if one[0]]
        runs.append(sorted(run) if len(set(bound)) == len(bound) else run)
    digests[name] = hashlib.sha256(repr((code.digest, runs)).encode()).hexdigest()
    return digests[name]


def _is_empty(module: str) -> bool:
    """Return whether a module has no code, as most packages."""
    path = find_source(module)
    if path is None:
        return identify_without_source(module) == ""
    code = _read_loaded(path, module)
    return code.digest == _EMPTY and not code.runs


_LOADED: WeakKeyDictionary[ModuleType, dict[bool, _Code]] = WeakKeyDictionary()
"""Code of the modules that this process has loaded, as it was when it was first asked for."""


def _read_loaded(path: Path, name: str, *, compiles: bool = False) -> _Code:
    """Parse a source file, once for a module that is loaded: what runs is what was imported,
    whatever the file says later.
    """
    module = sys.modules.get(name)
    known = {} if module is None else _LOADED.setdefault(module, {})
    if compiles not in known:
        known[compiles] = _read_code(str(path), path.stat().st_mtime_ns, name, compiles=compiles)
    return known[compiles]


@lru_cache(maxsize=2000)
def _read_code(path: str, modified_ns: int, module: str, *, compiles: bool = False) -> _Code:  # noqa: ARG001 (part of the cache's key)
    """Parse a source file.

    Args:
        path: File.
        modified_ns: Time of its last change.
        module: Name of the module, to which relative imports refer.
        compiles: Whether the digest is of the compiled code, which takes a tenth of the time. It
            depends on the version of Python, so that keys have the digest of the syntax tree.

    """
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    revisions = tuple(sorted(_iter_revisions(tree)))
    package = module if Path(path).name == "__init__.py" else module.rpartition(".")[0]
    runs: list[tuple[_Import, ...]] = []
    _mark_imports(tree, package, runs, _PLACE)
    if compiles:
        code = compile(tree, "", "exec", dont_inherit=True, optimize=0)
        return _Code(_digest_compiled(code), tuple(runs), revisions)
    return _Code(hashlib.sha256(ast.dump(tree).encode()).hexdigest(), tuple(runs), revisions)


def _digest_compiled(code: CodeType) -> str:
    """Compute a digest of compiled code, without the numbers of its lines."""
    constants = [
        _digest_compiled(one) if isinstance(one, CodeType) else _describe_constant(one)
        for one in code.co_consts
    ]
    parts = (
        code.co_code,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_exceptiontable,
        constants,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _describe_constant(value: object) -> str:
    """Return a text of a constant in which sets have an order that does not depend on the hashes of
    this process.
    """
    if isinstance(value, frozenset | tuple):
        parts = [_describe_constant(one) for one in value]
        inside = ", ".join(sorted(parts) if isinstance(value, frozenset) else parts)
        return f"{type(value).__name__}({inside})"
    return repr(value)


def _mark_imports(
    node: ast.AST, package: str, runs: list[tuple[_Import, ...]], place: ast.AST
) -> None:
    """Remove docstrings and what only type checkers run, and put a mark in the place of each run of
    successive imports.

    Args:
        node: Node whose lists of statements are changed, at any depth. Expressions have none.
        package: Package to which relative imports refer.
        runs: Runs of imports so far, to which those of the node are added.
        place: Node whose lines new nodes have where `node` has none. `ast.fix_missing_locations`
            gives them the same ones, but takes longer than all else.

    """
    place = node if hasattr(node, "lineno") else place
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        statements = getattr(node, name, None)
        if not isinstance(statements, list):
            continue
        if name in ("handlers", "cases"):
            for inner in statements:
                _mark_imports(inner, package, runs, place)
            continue
        changed = _mark_statements(statements, package, runs, place)
        is_needed = name == "body" and not isinstance(node, ast.Module)
        setattr(
            node, name, changed or ([ast.copy_location(ast.Pass(), place)] if is_needed else [])
        )


def _mark_statements(
    statements: Sequence[ast.stmt], package: str, runs: list[tuple[_Import, ...]], place: ast.AST
) -> list[ast.stmt]:
    """Return the statements of a list as `_mark_imports` changes them."""
    changed: list[ast.stmt] = []
    run: list[_Import] = []
    for statement in [*statements, None]:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            run += _iter_imports(statement, package)
            continue
        if run:
            mark, number = ast.Name("imports of this place", ast.Store()), ast.Constant(len(runs))
            assignment = ast.Assign([mark], number)
            for new in (mark, number, assignment):
                ast.copy_location(new, place)
            changed.append(assignment)
            runs.append(tuple(run))
            run = []
        if statement is None or _is_text(statement):
            continue
        if isinstance(statement, ast.If) and _name(statement.test) in (
            "TYPE_CHECKING",
            "typing.TYPE_CHECKING",
        ):
            changed += _mark_statements(statement.orelse, package, runs, place)
            continue
        _mark_imports(statement, package, runs, place)
        changed.append(statement)
    return changed


def _name(node: ast.AST) -> str:
    """Return a name, or a module and a name in it, as they are written; "" for another
    expression.
    """
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _is_text(statement: ast.stmt) -> bool:
    """Return whether a statement is a text, such as a docstring."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _iter_imports(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[_Import]:
    """Yield what an import binds: names of a module, or modules; and the packages around it, whose
    code it runs.
    """
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield _Import(alias.asname or alias.name, alias.name)
            yield from _iter_parents(alias.name)
        return
    parts = package.split(".")
    parents = parts[: len(parts) - node.level + 1] if node.level else []
    base = ".".join([*parents, *([node.module] if node.module else [])])
    yield from _iter_parents(base)
    for alias in node.names:
        inner = f"{base}.{alias.name}"
        if alias.name == "*":
            yield _Import("*", base)
            yield from (_Import("", submodule) for submodule in _list_submodules(base))
        elif find_source(inner) is not None:
            yield _Import(alias.asname or alias.name, inner)
            yield _Import("", base)
        else:
            yield _Import(alias.asname or alias.name, base, alias.name)


def _list_submodules(package: str) -> list[str]:
    """Return the names of the modules of a package, which `import *` imports if the package lists
    them.
    """
    path = find_source(package)
    if path is None or path.name != "__init__.py":
        return []
    return [
        f"{package}.{file.stem}"
        for file in sorted(path.parent.glob("*.py"))
        if file.name != "__init__.py"
    ]


def _iter_parents(module: str) -> Iterator[_Import]:
    """Yield the packages around a module, whose code its import runs."""
    parts = module.split(".")
    for length in range(1, len(parts)):
        yield _Import("", ".".join(parts[:length]))


def _iter_revisions(tree: ast.Module) -> Iterator[str]:
    """Yield the revisions that the classes of a module declare, such as "PostFusion:5"."""
    for class_node in tree.body:
        for item in class_node.body if isinstance(class_node, ast.ClassDef) else ():
            if (
                isinstance(item, ast.AnnAssign)
                and _name(item.target) == "revision"
                and item.value is not None
            ):
                yield f"{getattr(class_node, 'name', '')}:{ast.unparse(item.value)}"
