"""Per-question metrics of every cell as one table, for custom plots, regressions and slices."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from winnow.artifacts.files import atomic_write
from winnow.reports.cells import CellResult, name_cells

_LABELS = ("strategy", "k", "gold", "samples", "setting", "seed")


def write_question_values(cells: Sequence[CellResult], path: Path) -> None:
    """Write a Parquet file with a row per cell and question.

    Its columns are the name of the cell and its labels, the selection of the questions and the id
    of the question, which together name it, the answer, the group of the breakdown if there is one,
    and a column per metric with the question's own value, in shares from 0 to 1, or null where it
    is undefined.

    Args:
        cells: Cells of a report.
        path: File to write.
    """
    with atomic_write(path) as partial:
        writer: pq.ParquetWriter | None = None
        try:
            for name, cell in zip(name_cells(cells), cells, strict=True):
                table = _build_table(name, cell)
                writer = writer or pq.ParquetWriter(partial, table.schema, compression="zstd")
                writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()


def _build_table(name: str, cell: CellResult) -> pa.Table:
    """Build the rows of one cell."""
    labels = {"cell": name, **{label: getattr(cell.labels, label) for label in _LABELS}}
    labels["selection"] = cell.labels.questions
    columns: dict[str, pa.Array] = {
        label: pa.array(
            [value] * cell.num_questions, pa.int64() if isinstance(value, int) else pa.string()
        )
        for label, value in labels.items()
    }
    columns["question_id"] = pa.array(cell.columns.question_ids, pa.string())
    columns["answer"] = pa.array(cell.columns.answers, pa.string())
    if cell.groups:
        columns["group"] = pa.array(cell.groups, pa.string())
    for metric in cell.metrics:
        columns[metric.name] = pa.array(
            cell.compute_values(metric.name), pa.float64(), from_pandas=True
        )
    return pa.table(columns)
