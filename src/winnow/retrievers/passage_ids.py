"""Passage ids by row in a memory-mapped Arrow file: a list of 21 million would take over 1 GB."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path

import pyarrow as pa

from winnow.artifacts.files import atomic_write

_SCHEMA = pa.schema([("passage_id", pa.string())])


def write_passage_ids(path: Path, batches: Iterable[Sequence[str]]) -> int:
    """Write ids in the order of the index's rows, and return their number."""
    count = 0
    with (
        atomic_write(path) as partial,
        pa.OSFile(str(partial), "wb") as sink,
        pa.ipc.new_file(sink, _SCHEMA) as writer,
    ):
        for batch in batches:
            writer.write_batch(pa.record_batch([pa.array(batch, pa.string())], schema=_SCHEMA))
            count += len(batch)
    return count


class PassageIds:
    """An open file of ids, of which only the pages that are read are in memory."""

    def __init__(self, path: Path) -> None:
        """Open the file as a memory map."""
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        self._batches = [
            reader.get_batch(number).column(0) for number in range(reader.num_record_batches)
        ]
        self._ends = list(accumulate(map(len, self._batches)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def get(self, row: int) -> str:
        """Return the id of the passage in a row, which counts from 0."""
        number = bisect_right(self._ends, row)
        start = self._ends[number] - len(self._batches[number])
        return str(self._batches[number][row - start].as_py())
