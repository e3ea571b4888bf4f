"""Read and write Parquet files whose columns follow a contract (see `winnow.artifacts.contracts`).

Rows are checked when they are written and when they are read. Errors name the file, the row and the
column.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from winnow.artifacts.contracts import Contract
from winnow.artifacts.files import atomic_write, check_free_space, prepare_temporary_path
from winnow.errors import ArtifactError, MissingArtifactError, WinnowError

_CONTROL_CHARACTERS = r"[\x00-\x1f\x7f-\x{9f}\x{2028}\x{2029}]"
"""Regular expression of line breaks, tabs and other characters that end or hide a text."""
Row = Mapping[str, Any]
"""Values of one row by column name."""


def write(path: Path, contract: Contract, rows: Iterable[Row], *, group: int = 10_000) -> int:
    """Write rows to a Parquet file, and return their number. No file remains at `path` on error.

    Args:
        path: File to write.
        contract: Columns of the file.
        rows: Rows to write, which are never all in memory at once.
        group: Number of rows that are written at once.

    Raises:
        ArtifactError: If a value is missing or NaN, or if an id is a duplicate.
    """
    with atomic_write(path) as partial:
        count = 0
        with pq.ParquetWriter(partial, contract.schema, compression="zstd") as writer:
            for batch in batched(rows, group):
                writer.write_table(_build_table(batch, contract, path, count))
                count += len(batch)
    check_unique(path, contract)
    return count


class ArtifactWriter:
    """A writer that accepts rows in any order. `finish` sorts them by id and writes the file.

    Rows are collected in a temporary file, which is lost if the process is killed.

    Attributes:
        path: File to write.
        contract: Columns of the file.
        group: Number of rows that are written to the temporary file at once.
        partial: Path of the temporary file.
        num_written: Number of rows in the temporary file.
    """

    def __init__(self, path: Path, contract: Contract, *, group: int = 1000) -> None:
        """Check the free disk space, and choose a temporary file next to `path`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        check_free_space(path.parent, 64 * 2**20)
        self.path, self.contract, self.group = path, contract, group
        self.partial = prepare_temporary_path(path, "rows")
        self.num_written = 0
        self._buffer: list[Row] = []
        self._writer: pq.ParquetWriter | None = None

    def add(self, row: Row) -> None:
        """Add one row."""
        self._buffer.append(row)
        if len(self._buffer) >= self.group:
            self._flush()

    def finish(
        self, order: Sequence[str], convert: Callable[[pa.Table], pa.Table] = lambda table: table
    ) -> int:
        """Sort the rows, write the artifact, and return the number of rows.

        Args:
            order: Ids of all rows in the order of the file. An id is the value of the contract's
                first unique column.
            convert: Function that is applied to the sorted rows before they are written.

        Raises:
            ArtifactError: If the number of rows is not the number of ids, or if an id is a
                duplicate.
        """
        self._flush()
        if self._writer is not None:
            self._writer.close()
        if self.num_written != len(order):
            self.partial.unlink(missing_ok=True)
            raise ArtifactError(
                f"{self.path} received {self.num_written} rows for {len(order)} questions. The "
                "file was not written."
            )
        try:
            table = (
                pq.read_table(self.partial) if self._writer else self.contract.schema.empty_table()
            )
            position_by_id = {row_id: position for position, row_id in enumerate(order)}
            row_ids = table[self.contract.unique_columns[0]].to_pylist()
            positions = pa.array([position_by_id[row_id] for row_id in row_ids], pa.int64())
            with atomic_write(self.path) as partial:
                pq.write_table(
                    convert(table.take(pc.sort_indices(positions))), partial, compression="zstd"
                )
        finally:
            self.partial.unlink(missing_ok=True)
        check_unique(self.path, self.contract)
        return self.num_written

    def _flush(self) -> None:
        if not self._buffer:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.partial, self.contract.schema, compression="zstd")
        self._writer.write_table(
            _build_table(self._buffer, self.contract, self.path, self.num_written)
        )
        self.num_written += len(self._buffer)
        self._buffer = []


def _build_table(batch: Sequence[Row], contract: Contract, path: Path, first_row: int) -> pa.Table:
    """Convert rows to a table, and check their values. Errors count rows from `first_row`."""
    columns = {}
    for name in contract.schema.names:
        values = [row[name] for row in batch]
        nullable = contract.schema.field(name).nullable
        for offset, value in enumerate(values):
            if (value is None and not nullable) or (isinstance(value, float) and value != value):
                row_number = first_row + offset
                raise ArtifactError(
                    f"{path}, row {row_number}, column {name}: received {value!r}; a value is "
                    "required."
                )
        columns[name] = values
    table = pa.table(columns, schema=contract.schema)
    for name in contract.unique_columns:
        _check_ids(table[name], path, name, first_row)
    return table


def _check_ids(ids: pa.ChunkedArray, path: Path, column: str, first_row: int) -> None:
    """Raise ArtifactError for blank ids and ids with control characters, which text files lose."""
    if not pa.types.is_string(ids.type):
        return
    is_blank = pc.equal(pc.utf8_trim_whitespace(ids), "")
    index = pc.index(
        pc.or_(is_blank, pc.match_substring_regex(ids, _CONTROL_CHARACTERS)), True
    ).as_py()
    if index >= 0:
        raise ArtifactError(
            f"{path}, row {first_row + index}, column {column}: received {ids[index].as_py()!r}; "
            "an id must have a visible character and no control characters. Correct the input."
        )


def read(
    path: Path, contract: Contract, *, columns: Sequence[str] | None = None, filters: Any = None
) -> pa.Table:
    """Read an artifact, and check its columns and values.

    Args:
        path: File to read.
        contract: Columns that the file must have.
        columns: Names of the columns to read. By default, all are read.
        filters: Filter expression of `pyarrow.parquet.read_table` that selects the rows to read. By
            default, all are read.

    Raises:
        MissingArtifactError: If the file does not exist.
        ArtifactError: If a column is missing, or if a value is null or NaN.
    """
    with _name_damage(path):
        _check_columns(path, contract)
        names = list(columns) if columns else None
        if filters is None:  # without pyarrow.dataset, whose import takes longer than most files
            with pq.ParquetFile(path, memory_map=True) as file:
                table = file.read(names)
        else:
            table = pq.read_table(path, columns=names, filters=filters, memory_map=True)
    for name in table.column_names:
        column = table[name]
        if column.null_count and not contract.schema.field(name).nullable:
            row = pc.index(pc.is_null(column), True).as_py()
            raise ArtifactError(f"{path}, row {row}, column {name} is null. Rebuild the artifact.")
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            row = pc.index(pc.is_nan(column), True).as_py()
            raise ArtifactError(f"{path}, row {row}, column {name} is NaN. Rebuild the artifact.")
    return table


def stream(path: Path, contract: Contract, *, batch: int = 10_000) -> Iterator[dict[str, Any]]:
    """Yield the rows of an artifact, of which only `batch` rows are in memory at once."""
    with _name_damage(path):
        _check_columns(path, contract)
    for part in iter_batches(path, batch):
        yield from part.to_pylist()


def iter_batches(
    path: Path, size: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file in batches; raise ArtifactError if it is damaged."""
    with _name_damage(path):
        file = pq.ParquetFile(path, memory_map=True)
    with file:
        batches = file.iter_batches(batch_size=size, columns=list(columns) if columns else None)
        while True:
            with _name_damage(path):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def read_table(path: Path, filters: Any = None) -> pa.Table:
    """Read selected Parquet rows without a contract; raise ArtifactError if the file is damaged."""
    with _name_damage(path):
        return pq.read_table(path, filters=filters)


@contextmanager
def _name_damage(path: Path) -> Iterator[None]:
    """Raise ArtifactError for what pyarrow raises where a file is not a Parquet file any more."""
    try:
        yield
    except WinnowError:
        raise
    except (OSError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())[:200]
        raise ArtifactError(
            f"{path} is damaged ({reason}). Remove the folder {path.parent} and run the command "
            "that made it, or restore the file."
        ) from error


def is_complete(path: Path) -> bool:
    """Return whether a file exists and was written to its end. Its rows are not read."""
    try:
        pq.read_metadata(path)
    except (OSError, pa.ArrowInvalid):
        return False
    return True


def count_rows(path: Path) -> int:
    """Return the number of rows of a file, which are not read."""
    with _name_damage(path):
        count: int = pq.read_metadata(path).num_rows
    return count


def check_unique(path: Path, contract: Contract) -> None:
    """Check that the ids of an artifact are unique, and delete the file if they are not.

    Raises:
        ArtifactError: If an id is a duplicate. The message names the first one.
    """
    keys = pq.read_table(path, columns=list(contract.unique_columns))
    key_counts = keys.group_by(list(contract.unique_columns)).aggregate([([], "count_all")])
    if key_counts.num_rows == keys.num_rows:
        return
    duplicate = key_counts.filter(pc.field("count_all") > 1).slice(0, 1).to_pylist()[0]
    duplicate_key = {column: duplicate[column] for column in contract.unique_columns}
    name = ", ".join(f"{column}={value!r}" for column, value in duplicate_key.items())
    rows = [index for index, row in enumerate(keys.to_pylist()) if row == duplicate_key]
    path.unlink()
    raise ArtifactError(
        f"{name} is a duplicate: rows {rows[0]} and {rows[1]}, counted from 0, of what was read "
        f"for {path}. Ids must be unique. Correct the input."
    )


def _check_columns(path: Path, contract: Contract) -> None:
    if not path.is_file():
        raise MissingArtifactError(
            f"There is no {contract.name} artifact at {path}. Run the stage that writes it first."
        )
    missing_columns = set(contract.schema.names) - set(pq.read_schema(path).names)
    if missing_columns:
        raise ArtifactError(
            f"{path} lacks the columns {sorted(missing_columns)}, which a {contract.name} artifact "
            "must "
            "have. Rebuild the artifact."
        )


def batched(rows: Iterable[Any], batch_size: int) -> Iterator[list[Any]]:
    """Yield lists of `batch_size` rows. The last list may be shorter."""
    batch: list[Any] = []
    for row in rows:
        batch.append(row)
        if len(batch) == batch_size:
            yield batch
            batch = []
    if batch:
        yield batch
