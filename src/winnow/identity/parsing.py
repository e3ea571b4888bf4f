"""What the text of a source file says: the digest of its code, and its imports as it writes them.

What was parsed is kept next to Python's bytecode, as pytest keeps its own, and counts for the same
text, version of Python and version of this module.
"""

import ast
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType

_PLACE = ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
"""Place of new nodes at the top of a module."""


@dataclass(frozen=True, slots=True)
class ImportStatement:
    """An import as a source file writes it.

    Attributes:
        module: Module after `from`, without its dots; None for `import`.
        level: Number of dots before the module.
        names: Imported names, each with the name that the file gives to it.
    """

    module: str | None
    level: int
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ParsedText:
    """What the text of a source file says.

    Attributes:
        digest: Digest of its code without docstrings, in which numbered marks have the places of
            runs of successive imports.
        runs: The runs of imports, in the order of their marks.
        revisions: Revisions that its classes declare, such as "PostFusion:5".
        docstrings: Digest of its docstrings.
        reads_docstrings: Whether its code reads docstrings, for example as parts of prompts.
    """

    digest: str
    runs: tuple[tuple[ImportStatement, ...], ...]
    revisions: tuple[str, ...]
    docstrings: str
    reads_docstrings: bool


def parse_text(path: Path, *, compiles: bool) -> ParsedText:
    """Parse a source file, unless the same text was parsed before.

    Args:
        path: File.
        compiles: Whether the digest is of the compiled code, which takes a tenth of the time. It
            depends on the version of Python, so that keys have the digest of the syntax tree.
    """
    text = path.read_bytes()
    key = f"{_identify_parser()}-{hashlib.sha256(text).hexdigest()}"
    bytecode = Path(cache_from_source(str(path)))
    cache_file = bytecode.with_suffix(f".{'code' if compiles else 'tree'}.json")
    with suppress(OSError, ValueError, KeyError, TypeError):
        return _read_parsed(cache_file, key)
    parsed_text = _parse(text, compiles=compiles)
    if not sys.dont_write_bytecode:
        with suppress(OSError):  # where Python cannot keep its bytecode either
            _keep(cache_file, key, parsed_text)
    return parsed_text


@cache
def _identify_parser() -> str:
    """Return a digest of this module and of the version of Python."""
    code = Path(__file__).read_bytes() + sys.version.encode()
    return hashlib.sha256(code).hexdigest()[:12]


def _read_parsed(file: Path, key: str) -> ParsedText:
    """Read what was kept under a key; raise KeyError if it was of another text or parser."""
    digest, runs, revisions, *docstrings = json.loads(file.read_text(encoding="utf-8"))[key]
    return ParsedText(
        digest,
        tuple(
            tuple(
                ImportStatement(
                    module, level, tuple((name, bound_name) for name, bound_name in names)
                )
                for module, level, names in run
            )
            for run in runs
        ),
        tuple(revisions),
        *docstrings,
    )


def _keep(file: Path, key: str, parsed: ParsedText) -> None:
    """Replace what is kept of a file."""
    partial = file.with_suffix(f".{os.getpid()}.partial")
    file.parent.mkdir(exist_ok=True)
    partial.write_text(json.dumps({key: astuple(parsed)}), encoding="utf-8")
    partial.replace(file)


def _parse(text: bytes, *, compiles: bool) -> ParsedText:
    tree = ast.parse(text)
    revisions = tuple(sorted(_iter_revisions(tree)))
    docstrings = hashlib.sha256(repr(list(_iter_docstrings(tree))).encode()).hexdigest()
    reads_docstrings = any(map(_reads_docstring, ast.walk(tree)))
    runs: list[tuple[ImportStatement, ...]] = []
    _mark_imports(tree, runs, _PLACE)
    if compiles:
        digest = _digest_compiled(compile(tree, "", "exec", dont_inherit=True, optimize=0))
    else:
        digest = hashlib.sha256(ast.dump(tree).encode()).hexdigest()
    return ParsedText(digest, tuple(runs), revisions, docstrings, reads_docstrings)


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
    """Return a constant as text, with sets in an order independent of this process's hashes."""
    if isinstance(value, frozenset | tuple):
        parts = [_describe_constant(one) for one in value]
        inside = ", ".join(sorted(parts) if isinstance(value, frozenset) else parts)
        return f"{type(value).__name__}({inside})"
    return repr(value)


def _mark_imports(node: ast.AST, runs: list[tuple[ImportStatement, ...]], place: ast.AST) -> None:
    """Remove docstrings and type-checking code, and replace each run of imports with a mark.

    Args:
        node: Node whose lists of statements are changed, at any depth. Expressions have none.
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
                _mark_imports(inner, runs, place)
            continue
        new_statements = _mark_statements(statements, runs, place)
        is_needed = name == "body" and not isinstance(node, ast.Module)
        setattr(
            node,
            name,
            new_statements or ([ast.copy_location(ast.Pass(), place)] if is_needed else []),
        )


def _mark_statements(
    statements: Sequence[ast.stmt], runs: list[tuple[ImportStatement, ...]], place: ast.AST
) -> list[ast.stmt]:
    """Return the statements of a list as `_mark_imports` changes them."""
    new_statements: list[ast.stmt] = []
    run: list[ImportStatement] = []
    for statement in [*statements, None]:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            run.append(_read_import(statement))
            continue
        if run:
            mark, number = ast.Name("imports of this place", ast.Store()), ast.Constant(len(runs))
            assignment = ast.Assign([mark], number)
            for new in (mark, number, assignment):
                ast.copy_location(new, place)
            new_statements.append(assignment)
            runs.append(tuple(run))
            run = []
        if statement is None or _is_text(statement):
            continue
        if isinstance(statement, ast.If) and _name(statement.test) in (
            "TYPE_CHECKING",
            "typing.TYPE_CHECKING",
        ):
            new_statements += _mark_statements(statement.orelse, runs, place)
            continue
        _mark_imports(statement, runs, place)
        new_statements.append(statement)
    return new_statements


def _name(node: ast.AST) -> str:
    """Return a name or a module's attribute as it is written, or "" for another expression."""
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


def _iter_docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the docstrings of a module, its classes and its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def _reads_docstring(node: ast.AST) -> bool:
    """Return whether a node names the docstring of something, or the function that returns it."""
    names = (getattr(node, name, None) for name in ("attr", "id", "name"))
    return any(name in ("__doc__", "getdoc") for name in names)


def _read_import(statement: ast.Import | ast.ImportFrom) -> ImportStatement:
    names = tuple((alias.name, alias.asname or alias.name) for alias in statement.names)
    if isinstance(statement, ast.Import):
        return ImportStatement(None, 0, names)
    return ImportStatement(statement.module or "", statement.level, names)


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
