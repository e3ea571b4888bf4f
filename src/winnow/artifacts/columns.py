"""Mappings over the columns of large artifacts, whose rows become objects only when used."""

import tempfile
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from winnow.artifacts import contracts, parquet
from winnow.records import Passage

T = TypeVar("T")
_ROWS_AT_ONCE = 65_536
_MAX_IN_MEMORY = 300_000
"""Number of passages above which their texts are kept in a memory-mapped file."""


class GroupedRows(Mapping[str, T]):
    """Adjacent rows of a table by the id that they share, such as the hits of a question."""

    def __init__(
        self,
        table: pa.Table,
        key: str,
        order: Sequence[str],
        build: Callable[[dict[str, list[Any]]], T],
        empty: Collection[str] = (),
    ) -> None:
        """Sort the table.

        Args:
            table: Table with the column `key`.
            key: Name of the column with the ids. Rows of other ids than those in `order` are left
                out.
            order: Ids in the order of iteration.
            build: Function that builds a group from its columns, as lists of values by name.
            empty: Ids that may have no rows. Their group is built from empty columns.
        """
        numbers = pc.index_in(table[key], value_set=pa.array(order, pa.string()))
        table = table.drop_columns([key]).append_column("group", numbers)
        if numbers.null_count:
            table = table.filter(pc.is_valid(table["group"]))
        columns = [name for name in ("group", "rank") if name in table.column_names]
        if not _is_sorted([table[name].to_numpy() for name in columns]):
            table = table.sort_by([(name, "ascending") for name in columns])
        groups, counts = np.unique(table["group"].to_numpy(), return_counts=True)
        ends = np.cumsum(counts)
        self._table, self._build = table.drop_columns(["group"]), build
        slices = {
            order[group]: (int(end - count), int(count))
            for group, count, end in zip(groups, counts, ends, strict=True)
        }
        self._slices = {
            id_: slices.get(id_, (0, 0)) for id_ in order if id_ in slices or id_ in empty
        }

    def __getitem__(self, name: str) -> T:
        """Build the group of an id."""
        return self._build(self._table.slice(*self._slices[name]).to_pydict())

    def __contains__(self, name: object) -> bool:
        """Return whether an id has rows, without building its group."""
        return name in self._slices

    def __iter__(self) -> Iterator[str]:
        """Yield the ids."""
        return iter(self._slices)

    def __len__(self) -> int:
        return len(self._slices)

    @property
    def lengths(self) -> list[int]:
        """Return the number of rows of each id."""
        return [length for _, length in self._slices.values()]


def read_passages_by_id(path: Path, ids: pa.Array) -> Mapping[str, Passage]:
    """Read the passages with these ids from an artifact; ids that it lacks are left out.

    Those of many questions stay in a memory-mapped file (see `MappedPassages`).
    """
    is_used = pc.field("passage_id").isin(ids)
    if len(ids) > _MAX_IN_MEMORY:
        return MappedPassages(_map_rows(path, is_used))
    rows = parquet.read(path, contracts.CORPUS, filters=is_used).to_pylist()
    return {row["passage_id"]: Passage(**row) for row in rows}


class MappedPassages(Mapping[str, Passage]):
    """Passages in memory-mapped batches, which are found by hashes of their ids."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Compute the hashes of all ids."""
        self._columns = [
            [batch[name] for name in ("passage_id", "title", "text")] for batch in batches
        ]
        self._ends = np.cumsum([batch.num_rows for batch in batches], dtype=np.int64)
        hashes = np.concatenate(
            [_hash_ids(columns[0].to_pylist()) for columns in self._columns] or [_hash_ids([])]
        )
        self._rows = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._rows]

    def __getitem__(self, passage_id: str) -> Passage:
        """Read one passage."""
        return self.get_many([passage_id])[passage_id]

    def get_many(self, ids: Sequence[str]) -> dict[str, Passage]:
        """Read several passages; raise KeyError if one is missing."""
        positions = np.searchsorted(self._hashes, _hash_ids(ids)).tolist()
        return {
            passage_id: self._read(passage_id, position)
            for passage_id, position in zip(ids, positions, strict=True)
        }

    def _read(self, passage_id: str, position: int) -> Passage:
        """Read the passage with an id, starting at the first position with the hash of the id."""
        passage_hash = hash(passage_id)
        while position < len(self._hashes) and self._hashes[position] == passage_hash:
            row = int(self._rows[position])
            number = bisect_right(self._ends, row)
            found_ids, titles, texts = self._columns[number]
            index = row - int(self._ends[number]) + len(found_ids)
            if found_ids[index].as_py() == passage_id:
                return Passage(passage_id, titles[index].as_py(), texts[index].as_py())
            position += 1
        raise KeyError(passage_id)

    def __contains__(self, passage_id: object) -> bool:
        """Return whether there is a passage with an id."""
        try:
            return self[str(passage_id)] is not None
        except KeyError:
            return False

    def __iter__(self) -> Iterator[str]:
        """Yield the ids."""
        for columns in self._columns:
            yield from columns[0].to_pylist()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def ids(self) -> pa.ChunkedArray:
        """Return the ids of all passages."""
        return pa.chunked_array([columns[0] for columns in self._columns], pa.string())


def _is_sorted(columns: Sequence[NDArray[Any]]) -> bool:
    """Return whether rows ascend by the first column and, for ties, by the second if it exists."""
    steps = np.diff(columns[0])
    is_tie = steps == 0
    return bool(
        np.all((steps > 0) | (is_tie if len(columns) == 1 else is_tie & (np.diff(columns[1]) >= 0)))
    )


def find_first_missing(values: pa.ChunkedArray, known: pa.ChunkedArray) -> int | None:
    """Return the index of the first value that is not among the known ones, or None if all are."""
    is_missing = pc.invert(pc.is_in(values, value_set=known))
    index = pc.index(is_missing, True).as_py()
    return None if index < 0 else index


def _hash_ids(ids: Collection[str]) -> NDArray[np.int64]:
    """Return a hash of each id, which is the same within one process."""
    return np.fromiter((hash(id_) for id_ in ids), np.int64, len(ids))


def _map_rows(path: Path, selection: pc.Expression) -> list[pa.RecordBatch]:
    """Copy the selected rows to an unnamed file, and return them as memory-mapped batches."""
    schema = contracts.CORPUS.schema
    with tempfile.NamedTemporaryFile(suffix=".arrow") as file:
        with pa.ipc.new_file(file.name, schema) as writer:
            for batch in parquet.iter_batches(path, _ROWS_AT_ONCE, schema.names):
                writer.write_table(pa.table(batch).filter(selection).cast(schema))
        reader = pa.ipc.open_file(pa.memory_map(file.name))
        return [reader.get_batch(number) for number in range(reader.num_record_batches)]
