"""Artifacts: the only reader and writer of Parquet files; their columns are contracts.

A file appears under its name only when it is whole (atomic rename), and a manifest beside it says what made it. What
is read back is checked: a missing column, a null, a duplicate id or a NaN is named with file, row and column.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from winnow.errors import ArtifactError, DiskFullError, MissingArtifactError

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Contract:
    """The columns of one kind of artifact, and those that together must be unique."""

    name: str
    schema: pa.Schema
    unique: tuple[str, ...]


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns.items()])


_TEXTS = pa.list_(pa.string())
CORPUS = Contract("corpus", _schema(passage_id=pa.string(), title=pa.string(), text=pa.string()), ("passage_id",))
QUESTIONS = Contract(
    "questions",
    _schema(
        question_id=pa.string(),
        question=pa.string(),
        answers=_TEXTS,
        gold_passage_ids=_TEXTS,
        split=pa.string(),
        answerable=pa.bool_(),
        meta=pa.string(),
    ),
    ("question_id",),
)
RETRIEVAL = Contract(
    "retrieval",
    _schema(question_id=pa.string(), rank=pa.int32(), passage_id=pa.string(), score=pa.float32(), has_answer=pa.bool_()),
    ("question_id", "passage_id"),
)
HITS = Contract(
    "hits",
    _schema(question_id=pa.string(), rank=pa.int32(), passage_id=pa.string(), score=pa.float32()),
    ("question_id", "passage_id"),
)
RELEVANCE = Contract(
    "relevance",
    _schema(question_id=pa.string(), passage_id=pa.string(), log_odds=pa.float32(), p_true=pa.float32()),
    ("question_id", "passage_id"),
)
CLOSED_BOOK = Contract(
    "closed_book",
    _schema(question_id=pa.string(), answer=pa.string(), em=pa.float32(), f1=pa.float32(), kept=pa.bool_()),
    ("question_id",),
)
PREDICTIONS = Contract(
    "predictions",
    _schema(
        question_id=pa.string(),
        answer=pa.string(),
        candidates=_TEXTS,
        unknown=pa.bool_(),
        passage_ids=_TEXTS,
        gold_position=pa.int32(),
        provenance=pa.string(),
        em=pa.float32(),
        f1=pa.float32(),
        accuracy=pa.float32(),
        pooled=pa.bool_(),
        not_majority=pa.bool_(),
        tokens_in=pa.int32(),
        tokens_out=pa.int32(),
        seconds=pa.float32(),
        calls=pa.int32(),
        truncated_passages=pa.int32(),
    ),
    ("question_id",),
)


def write(path: Path, contract: Contract, rows: Iterable[Row], *, group: int = 10_000) -> int:
    """Write rows as one Parquet file, in groups, and return how many; on any failure nothing is left under `path`."""
    with writing(path) as partial:
        count = 0
        with pq.ParquetWriter(partial, contract.schema, compression="zstd") as writer:
            for batch in batched(rows, group):
                writer.write_table(_table(batch, contract, path, count))
                count += len(batch)
    check_unique(path, contract)
    return count


class Appender:
    """Takes the rows of one artifact in any order; `finish` puts them in the order of the ids and gives them their name.

    Rows that came before a kill are dropped with the partial file: the ledger gives them again.
    """

    def __init__(self, path: Path, contract: Contract, *, group: int = 1000) -> None:
        """Begin a partial file beside `path`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        check_space(path.parent, 64 * 2**20)
        self.path, self.contract, self.group = path, contract, group
        self.partial = _partial(path, "rows")
        self.rows = 0
        self._held: list[Row] = []
        self._writer: pq.ParquetWriter | None = None

    def add(self, row: Row) -> None:
        """Add one row."""
        self._held.append(row)
        if len(self._held) >= self.group:
            self._flush()

    def finish(self, order: Sequence[str]) -> int:
        """Write the artifact with its rows in the order of these ids, and return how many there are."""
        self._flush()
        if self._writer is not None:
            self._writer.close()
        if self.rows != len(order):
            self.partial.unlink(missing_ok=True)
            raise ArtifactError(f"{self.path} got {self.rows} rows for {len(order)} questions; nothing was written.")
        try:
            table = pq.read_table(self.partial) if self._writer else self.contract.schema.empty_table()
            place = {one: n for n, one in enumerate(order)}
            by = pa.array([place[one] for one in table[self.contract.unique[0]].to_pylist()], pa.int64())
            with writing(self.path) as partial:
                pq.write_table(table.take(pc.sort_indices(by)), partial, compression="zstd")
        finally:
            self.partial.unlink(missing_ok=True)
        check_unique(self.path, self.contract)
        return self.rows

    def _flush(self) -> None:
        if not self._held:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.partial, self.contract.schema, compression="zstd")
        self._writer.write_table(_table(self._held, self.contract, self.path, self.rows))
        self.rows += len(self._held)
        self._held = []


def _table(batch: Sequence[Row], contract: Contract, path: Path, start: int) -> pa.Table:
    columns = {}
    for name in contract.schema.names:
        values = [row[name] for row in batch]
        for offset, value in enumerate(values):
            if value is None or (isinstance(value, float) and value != value):
                raise ArtifactError(f"{path}, row {start + offset}, column {name}: received {value!r}; a value is due.")
        columns[name] = values
    return pa.table(columns, schema=contract.schema)


def read(path: Path, contract: Contract, *, columns: Sequence[str] | None = None, filters: Any = None) -> pa.Table:
    """Read an artifact, or some columns and rows of it, after checking that it keeps its contract."""
    _check_columns(path, contract)
    table = pq.read_table(path, columns=list(columns) if columns else None, filters=filters, memory_map=True)
    for name in table.column_names:
        column = table[name]
        if column.null_count:
            row = pc.index(pc.is_null(column), True).as_py()
            raise ArtifactError(f"{path}, row {row}, column {name} is null; make the artifact anew.")
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            row = pc.index(pc.is_nan(column), True).as_py()
            raise ArtifactError(f"{path}, row {row}, column {name} is NaN; make the artifact anew.")
    return table


def stream(path: Path, contract: Contract, *, batch: int = 10_000) -> Iterator[dict[str, Any]]:
    """Yield the rows of an artifact without holding it in memory."""
    _check_columns(path, contract)
    with pq.ParquetFile(path, memory_map=True) as file:
        for part in file.iter_batches(batch_size=batch):
            yield from part.to_pylist()


def check_unique(path: Path, contract: Contract) -> None:
    """Raise ArtifactError naming the first repeated id of an artifact."""
    keys = pq.read_table(path, columns=list(contract.unique))
    counted = keys.group_by(list(contract.unique)).aggregate([([], "count_all")])
    if counted.num_rows == keys.num_rows:
        return
    twice = counted.filter(pc.field("count_all") > 1).slice(0, 1).to_pylist()[0]
    name = ", ".join(f"{column}={twice[column]!r}" for column in contract.unique)
    rows = [n for n, row in enumerate(keys.to_pylist()) if all(row[c] == twice[c] for c in contract.unique)]
    path.unlink()
    raise ArtifactError(
        f"{path}, row {rows[1]}: {name} stands there for the second time (first in row {rows[0]}). Ids must be unique; "
        "correct the input."
    )


def _check_columns(path: Path, contract: Contract) -> None:
    if not path.is_file():
        raise MissingArtifactError(f"There is no {contract.name} at {path}. Run the stage that makes it first.")
    missing = set(contract.schema.names) - set(pq.read_schema(path).names)
    if missing:
        raise ArtifactError(f"{path} lacks the columns {sorted(missing)} of the contract {contract.name!r}.")


def batched(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yield lists of up to `size` rows."""
    batch: list[Any] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


@contextmanager
def writing(path: Path, *, needed: int = 64 * 2**20) -> Iterator[Path]:
    """Give a path to write to that is renamed to `path` at the end; on failure it is removed.

    Raises:
        DiskFullError: before anything is written, if fewer than `needed` bytes are free, or when the disk fills up.

    """
    path.parent.mkdir(parents=True, exist_ok=True)
    check_space(path.parent, needed)
    partial = _partial(path, "partial")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        if error.errno == 28:  # ENOSPC
            raise DiskFullError(
                f"The disk filled up while writing {path}; nothing of it was kept. Free space, run again."
            ) from error
        raise
    finally:
        if partial.is_dir():
            shutil.rmtree(partial)
        else:
            partial.unlink(missing_ok=True)


def _partial(path: Path, kind: str) -> Path:
    """Return this process's name for a file that is being written, and remove those of processes that died at it."""
    for old in path.parent.glob(f".{path.name}.*.{kind}"):
        if not Path(f"/proc/{old.name.split('.')[-2]}").exists():
            shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
    return path.with_name(f".{path.name}.{os.getpid()}.{kind}")


def check_space(folder: Path, needed: int) -> None:
    """Refuse to begin where fewer than `needed` bytes are free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DiskFullError(f"{folder} has {free / 2**20:.0f} MB free, {needed / 2**20:.0f} MB are needed. Free space first.")


def write_manifest(folder: Path, *, key: str, settings: Mapping[str, Any], rows: int) -> None:
    """Write what made an artifact beside it; its presence is what says that the artifact is done."""
    body = {"key": key, "rows": rows, "git": git_revision(), "versions": versions(), "settings": settings}
    with writing(folder / "manifest.json", needed=2**20) as partial:
        partial.write_text(json.dumps(body, indent=1, sort_keys=True) + "\n")


def is_done(folder: Path, key: str) -> bool:
    """Tell whether the folder holds the finished artifact of this key."""
    manifest = folder / "manifest.json"
    return manifest.is_file() and json.loads(manifest.read_text())["key"] == key


def key_of(*parts: Any) -> str:
    """Return the first 12 hex digits of the SHA-256 of JSON-like parts, in canonical form."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:12]


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hex; remembered while its size and time stay as they are."""
    state = path.stat()
    return _digest(str(path.resolve()), state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=10_000)
def _digest(path: str, size: int, changed: int) -> str:  # noqa: ARG001 (they make the memory forget)
    with Path(path).open("rb") as stream_:
        return hashlib.file_digest(stream_, "sha256").hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of what can change a number."""
    found = {}
    for name in ("winnow", "torch", "transformers", "bm25s", "faiss-cpu", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_revision() -> str:
    """Return the code's revision ("unknown" outside a checkout), marked where files were changed."""
    revision = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src", "flows", "conf")
    return f"{revision}{'+changed' if changed else ''}" if revision else "unknown"


def _git(*words: str) -> str:
    root = Path(__file__).resolve().parents[2]
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
