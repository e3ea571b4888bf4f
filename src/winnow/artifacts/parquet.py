"""Parquet files under a contract: both directions are checked, and errors name file, row and column."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from winnow.artifacts.contracts import Contract
from winnow.artifacts.files import atomic_write, check_free_space, temporary_path
from winnow.errors import ArtifactError, MissingArtifactError

Row = Mapping[str, Any]


def write(path: Path, contract: Contract, rows: Iterable[Row], *, group: int = 10_000) -> int:
    """Write rows as one Parquet file, in groups, and return how many; on any failure nothing is left under `path`."""
    with atomic_write(path) as partial:
        count = 0
        with pq.ParquetWriter(partial, contract.schema, compression="zstd") as writer:
            for batch in batched(rows, group):
                writer.write_table(_table(batch, contract, path, count))
                count += len(batch)
    check_unique(path, contract)
    return count


class Appender:
    """Collects the rows of one artifact in any order; `finish` sorts them by id and writes the file.

    A kill loses the rows of the partial file; a rerun gets them from the ledger.
    """

    def __init__(self, path: Path, contract: Contract, *, group: int = 1000) -> None:
        """Begin a partial file beside `path`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        check_free_space(path.parent, 64 * 2**20)
        self.path, self.contract, self.group = path, contract, group
        self.partial = temporary_path(path, "rows")
        self.rows = 0
        self._buffer: list[Row] = []
        self._writer: pq.ParquetWriter | None = None

    def add(self, row: Row) -> None:
        """Add one row."""
        self._buffer.append(row)
        if len(self._buffer) >= self.group:
            self._flush()

    def finish(self, order: Sequence[str]) -> int:
        """Write the artifact with its rows in the order of these ids, and return how many there are."""
        self._flush()
        if self._writer is not None:
            self._writer.close()
        if self.rows != len(order):
            self.partial.unlink(missing_ok=True)
            raise ArtifactError(f"{self.path} received {self.rows} rows for {len(order)} questions; nothing was written.")
        try:
            table = pq.read_table(self.partial) if self._writer else self.contract.schema.empty_table()
            position = {row_id: n for n, row_id in enumerate(order)}
            positions = pa.array([position[row_id] for row_id in table[self.contract.unique[0]].to_pylist()], pa.int64())
            with atomic_write(self.path) as partial:
                pq.write_table(table.take(pc.sort_indices(positions)), partial, compression="zstd")
        finally:
            self.partial.unlink(missing_ok=True)
        check_unique(self.path, self.contract)
        return self.rows

    def _flush(self) -> None:
        if not self._buffer:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.partial, self.contract.schema, compression="zstd")
        self._writer.write_table(_table(self._buffer, self.contract, self.path, self.rows))
        self.rows += len(self._buffer)
        self._buffer = []


def _table(batch: Sequence[Row], contract: Contract, path: Path, start: int) -> pa.Table:
    columns = {}
    for name in contract.schema.names:
        values = [row[name] for row in batch]
        nullable = contract.schema.field(name).nullable
        for offset, value in enumerate(values):
            if (value is None and not nullable) or (isinstance(value, float) and value != value):
                raise ArtifactError(f"{path}, row {start + offset}, column {name}: received {value!r}; a value is required.")
        columns[name] = values
    return pa.table(columns, schema=contract.schema)


def read(path: Path, contract: Contract, *, columns: Sequence[str] | None = None, filters: Any = None) -> pa.Table:
    """Read an artifact, or some columns and rows of it, after checking that it keeps its contract."""
    _check_columns(path, contract)
    table = pq.read_table(path, columns=list(columns) if columns else None, filters=filters, memory_map=True)
    for name in table.column_names:
        column = table[name]
        if column.null_count and not contract.schema.field(name).nullable:
            row = pc.index(pc.is_null(column), True).as_py()
            raise ArtifactError(f"{path}, row {row}, column {name} is null; rebuild the artifact.")
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            row = pc.index(pc.is_nan(column), True).as_py()
            raise ArtifactError(f"{path}, row {row}, column {name} is NaN; rebuild the artifact.")
    return table


def stream(path: Path, contract: Contract, *, batch: int = 10_000) -> Iterator[dict[str, Any]]:
    """Yield the rows of an artifact without holding it in memory."""
    _check_columns(path, contract)
    with pq.ParquetFile(path, memory_map=True) as file:
        for part in file.iter_batches(batch_size=batch):
            yield from part.to_pylist()


def is_complete(path: Path) -> bool:
    """Return whether a file exists and was written to its end; its rows are not read."""
    try:
        pq.read_metadata(path)
    except (OSError, pa.ArrowInvalid):
        return False
    return True


def check_unique(path: Path, contract: Contract) -> None:
    """Raise ArtifactError naming the first repeated id of an artifact."""
    keys = pq.read_table(path, columns=list(contract.unique))
    counted = keys.group_by(list(contract.unique)).aggregate([([], "count_all")])
    if counted.num_rows == keys.num_rows:
        return
    duplicate = counted.filter(pc.field("count_all") > 1).slice(0, 1).to_pylist()[0]
    name = ", ".join(f"{column}={duplicate[column]!r}" for column in contract.unique)
    rows = [n for n, row in enumerate(keys.to_pylist()) if all(row[c] == duplicate[c] for c in contract.unique)]
    path.unlink()
    raise ArtifactError(
        f"{path}, row {rows[1]}: {name} is a duplicate (first in row {rows[0]}). Ids must be unique; correct the input."
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
