"""What the source file of a module says: the digest of its code, and the modules that it runs."""

import ast
import hashlib
import marshal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from weakref import WeakKeyDictionary

from winnow.errors import ConfigError
from winnow.identity.modules import find_source, identify_without_source
from winnow.identity.parsing import ImportStatement, parse_text

STARTED = time.time()
"""Time at which this process began to import Winnow."""
_EMPTY = hashlib.sha256(ast.dump(ast.Module([], [])).encode()).hexdigest()
"""Digest of a file without code."""


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
        digest: Digest of its code, as of `ParsedText`.
        runs: The runs of imports, in the order of their marks, with the packages that they run.
        revisions: Revisions that its classes declare, as of `ParsedText`.
        docstrings: Digest of its docstrings.
        reads_docstrings: Whether its code reads docstrings.
    """

    digest: str
    runs: tuple[tuple[Import, ...], ...]
    revisions: tuple[str, ...]
    docstrings: str
    reads_docstrings: bool


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
        compiles: Whether the digest is of the compiled code; see `parse_text`.
    """
    file = Path(path)
    parsed_text = parse_text(file, compiles=compiles)
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    runs = (
        tuple(one for statement in run for one in _iter_imports(statement, package))
        for run in parsed_text.runs
    )
    return Code(
        parsed_text.digest,
        tuple(runs),
        parsed_text.revisions,
        parsed_text.docstrings,
        parsed_text.reads_docstrings,
    )


def _iter_imports(statement: ImportStatement, package: str) -> Iterator[Import]:
    """Yield the names or modules that an import binds, and the parent packages that it runs."""
    if statement.module is None:
        for name, bound_name in statement.names:
            yield Import(bound_name, name)
            yield from _iter_parents(name)
        return
    parts = package.split(".")
    parents = parts[: len(parts) - statement.level + 1] if statement.level else []
    base = ".".join([*parents, *([statement.module] if statement.module else [])])
    yield from _iter_parents(base)
    for name, bound_name in statement.names:
        inner = f"{base}.{name}"
        if name == "*":
            yield Import("*", base)
            yield from (Import("", submodule) for submodule in _list_submodules(base))
        elif find_source(inner) is not None:
            yield Import(bound_name, inner)
            yield Import("", base)
        else:
            yield Import(bound_name, base, name)


def _list_submodules(package: str) -> list[str]:
    """Return a package's module names, which `import *` imports if the package lists them."""
    path = find_source(package)
    if path is None or path.name != "__init__.py":
        return []
    return [
        f"{package}.{file.stem}"
        for file in sorted(path.parent.glob("*.py"))
        if file.name != "__init__.py"
    ]


_LOADED: WeakKeyDictionary[ModuleType, tuple[ModuleSpec | None, dict[bool, Code]]] = (
    WeakKeyDictionary()
)
"""Code of the modules that this process has loaded, as it was when it was first asked for, with the
specification of the import, which another one (`importlib.reload`) replaces.
"""


def read_loaded(path: Path, name: str, *, compiles: bool = False) -> Code:
    """Parse a source file once per import, because later edits do not change what runs.

    Args:
        path: Source file.
        name: Name of the module.
        compiles: Whether the digest is of all code, not only of what is run, for the record of a
            run, which marks edited files itself.

    Raises:
        ConfigError: If the file was edited between its import and the first call.
    """
    module = sys.modules.get(name)
    cache: dict[bool, Code] = {}
    if module is not None:
        spec, cache = _LOADED.get(module, (module.__spec__, cache))
        if spec is not module.__spec__:
            cache = {}
        _LOADED[module] = module.__spec__, cache
    if compiles not in cache:
        if module is not None and not compiles and _was_edited(path, module):
            raise ConfigError(
                f"{path} was edited after this process imported it, so that the code that runs "
                "cannot be identified. Start the process, in a notebook the kernel, again."
            )
        cache[compiles] = read_code(str(path), path.stat().st_mtime_ns, name, compiles=compiles)
    return cache[compiles]


def _iter_parents(module: str) -> Iterator[Import]:
    """Yield the packages around a module, whose code its import runs."""
    parts = module.split(".")
    for length in range(1, len(parts)):
        yield Import("", ".".join(parts[:length]))


def _was_edited(path: Path, module: ModuleType) -> bool:
    """Return whether a source file differs from what a module was imported from.

    Only files that were written since this process began to import Winnow are looked at: their
    functions and, if Python wrote it at this import, their bytecode are compared.
    """
    spec = module.__spec__
    state = path.stat()
    if state.st_mtime < STARTED or spec is None or not isinstance(spec.loader, SourceFileLoader):
        return False
    try:
        source = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except SyntaxError:
        return True
    codes = set(_iter_codes(source))
    if any(code not in codes for code in _iter_loaded_codes(module, str(path))):
        return True
    try:
        header, body = (content := Path(spec.cached or "").read_bytes())[:16], content[16:]
    except OSError:
        return False
    has_time = header[4:8] == bytes(4)
    is_older = int.from_bytes(header[8:12], "little") != int(state.st_mtime) & 0xFFFFFFFF
    return has_time and is_older and not sys.dont_write_bytecode and marshal.loads(body) != source  # noqa: S302 (Python's own bytecode)


def _iter_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _iter_codes(constant)


def _iter_loaded_codes(module: ModuleType, file: str) -> Iterator[CodeType]:
    """Yield the code of the functions and methods of a module that are from its file."""
    values = list(vars(module).values())
    classes = [one for one in values if isinstance(one, type) and one.__module__ == module.__name__]
    for value in [*values, *(inner for one in classes for inner in vars(one).values())]:
        function = getattr(value, "__func__", getattr(value, "fget", value))
        code = getattr(function, "__code__", None)
        if isinstance(code, CodeType) and code.co_filename == file:
            yield code
