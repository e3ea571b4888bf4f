"""What the source file of a module says: the digest of its code, and the modules that it runs."""

import ast
import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, ModuleType
from weakref import WeakKeyDictionary

from winnow.identity.modules import find_source, identify_without_source

_EMPTY = hashlib.sha256(ast.dump(ast.Module([], [])).encode()).hexdigest()
"""Digest of a file without code."""


_PLACE = ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
"""Place of new nodes at the top of a module."""


@dataclass(frozen=True, slots=True)
class Import:
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
class Code:
    """What a source file says.

    Attributes:
        digest: Digest of its code without docstrings, in which numbered marks have the places of
            runs of successive imports.
        runs: The runs of imports, in the order of their marks.
        revisions: Revisions that its classes declare, such as "PostFusion:5".

    """

    digest: str
    runs: tuple[tuple[Import, ...], ...]
    revisions: tuple[str, ...]


def is_empty(module: str) -> bool:
    """Return whether a module has no code, as most packages."""
    path = find_source(module)
    if path is None:
        return identify_without_source(module) == ""
    code = read_loaded(path, module)
    return code.digest == _EMPTY and not code.runs


@lru_cache(maxsize=2000)
def read_code(path: str, modified_ns: int, module: str, *, compiles: bool = False) -> Code:  # noqa: ARG001 (part of the cache's key)
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
    runs: list[tuple[Import, ...]] = []
    _mark_imports(tree, package, runs, _PLACE)
    if compiles:
        code = compile(tree, "", "exec", dont_inherit=True, optimize=0)
        return Code(_digest_compiled(code), tuple(runs), revisions)
    return Code(hashlib.sha256(ast.dump(tree).encode()).hexdigest(), tuple(runs), revisions)


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
    node: ast.AST, package: str, runs: list[tuple[Import, ...]], place: ast.AST
) -> None:
    """Remove docstrings and what only type checkers run, and put a mark in the place of each run of
    successive imports.

    Args:
        node: Node whose lists of statements are changed, at any depth. Expressions have none.
        package: Package to which relative imports refer.
        runs: Runs of imports so far, to which the imports of the node are added.
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
    statements: Sequence[ast.stmt], package: str, runs: list[tuple[Import, ...]], place: ast.AST
) -> list[ast.stmt]:
    """Return the statements of a list as `_mark_imports` changes them."""
    changed: list[ast.stmt] = []
    run: list[Import] = []
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


def _iter_imports(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[Import]:
    """Yield what an import binds: names of a module, or modules; and the packages around it, whose
    code it runs.
    """
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.asname or alias.name, alias.name)
            yield from _iter_parents(alias.name)
        return
    parts = package.split(".")
    parents = parts[: len(parts) - node.level + 1] if node.level else []
    base = ".".join([*parents, *([node.module] if node.module else [])])
    yield from _iter_parents(base)
    for alias in node.names:
        inner = f"{base}.{alias.name}"
        if alias.name == "*":
            yield Import("*", base)
            yield from (Import("", submodule) for submodule in _list_submodules(base))
        elif find_source(inner) is not None:
            yield Import(alias.asname or alias.name, inner)
            yield Import("", base)
        else:
            yield Import(alias.asname or alias.name, base, alias.name)


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


_LOADED: WeakKeyDictionary[ModuleType, dict[bool, Code]] = WeakKeyDictionary()
"""Code of the modules that this process has loaded, as it was when it was first asked for."""


def read_loaded(path: Path, name: str, *, compiles: bool = False) -> Code:
    """Parse a source file, once for a module that is loaded: what runs is what was imported,
    whatever the file says later.
    """
    module = sys.modules.get(name)
    known = {} if module is None else _LOADED.setdefault(module, {})
    if compiles not in known:
        known[compiles] = read_code(str(path), path.stat().st_mtime_ns, name, compiles=compiles)
    return known[compiles]


def _iter_parents(module: str) -> Iterator[Import]:
    """Yield the packages around a module, whose code its import runs."""
    parts = module.split(".")
    for length in range(1, len(parts)):
        yield Import("", ".".join(parts[:length]))


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
