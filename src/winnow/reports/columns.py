"""The columns of a cell: its metrics and what reports need of its samples, without the samples.

A cell is one setting of a sweep.
"""

import gc
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from winnow.artifacts.parquet import count_rows
from winnow.metrics.base import Metric, Rows, Sample, collect_inputs, compute_rows
from winnow.records import Provenance
from winnow.sweeps.samples import SampleReader
from winnow.sweeps.spec import CellSpec

T = TypeVar("T")
_FEWEST = 200_000
"""Number of predictions from which on several processes read them."""
_MOST_PROCESSES = 8
"""Maximum number of processes, each of which keeps the questions in memory."""


@dataclass(frozen=True, slots=True)
class CellColumns:
    """What reports need of the samples of a cell, as columns with one entry per sample.

    Attributes:
        question_ids: Ids of the questions.
        answers: Predicted answers.
        provenances: How the gold passage of each question was determined.
        traces: Records of what the strategy did.
        truncated: Numbers of passages that did not fit into prompts.
        num_contexts: Numbers of contexts that were placed, which are fewer than k if fewer were
            retrieved.
        rows: Rows of each metric by metric name.
    """

    question_ids: tuple[str, ...]
    answers: tuple[str, ...]
    provenances: tuple[Provenance, ...]
    traces: tuple[Sequence[str], ...]
    truncated: tuple[int, ...]
    num_contexts: tuple[int, ...]
    rows: Mapping[str, Rows]

    def select(self, indices: Sequence[int]) -> "CellColumns":
        """Return the entries of the samples with these indices."""

        def pick(values: tuple[T, ...]) -> tuple[T, ...]:
            return tuple(values[index] for index in indices)

        numbers = np.array(indices, dtype=np.int64)
        return CellColumns(
            pick(self.question_ids),
            pick(self.answers),
            pick(self.provenances),
            pick(self.traces),
            pick(self.truncated),
            pick(self.num_contexts),
            {name: rows.select(numbers) for name, rows in self.rows.items()},
        )


def collect_columns(samples: Sequence[Sample], metrics: Sequence[Metric]) -> CellColumns:
    """Compute the metrics of all samples but the judged ones, and collect what else reports need.

    Args:
        samples: Samples of the cell, each of which is used once.
        metrics: Metrics of the cell.
    """
    entries = []

    def record() -> Iterator[Sample]:
        for sample in samples:
            one = sample.prediction
            passage_counts = one.truncated_passages, len(one.passage_ids)
            entries.append(
                (
                    sample.question.question_id,
                    one.answer,
                    one.provenance,
                    one.trace,
                    *passage_counts,
                )
            )
            yield sample

    rows = compute_rows(metrics, record())
    question_ids, answers, provenances, traces, truncated, numbers = (
        zip(*entries, strict=True) if entries else ((),) * 6
    )
    return CellColumns(question_ids, answers, provenances, traces, truncated, numbers, rows)


def has_many_predictions(
    specs: Sequence[CellSpec], metrics: Sequence[Metric], fewest: int = _FEWEST
) -> bool:
    """Return whether `collect_in_processes` takes less time than reading all cells in sequence.

    It does not for metrics that need the contexts of questions, which each process would read and
    keep.
    """
    if len(specs) < 2 or _count_cores() == 1 or collect_inputs(metrics) - {"prediction"}:
        return False
    return sum(count_rows(spec.predictions) for spec in specs) >= fewest


def collect_in_processes(
    specs: Sequence[CellSpec], metrics: Sequence[Metric], advance: Callable[[], object]
) -> dict[str, CellColumns]:
    """Collect the columns of cells in as many processes as this one may use cores, at most eight.

    Args:
        specs: Specifications of finished cells.
        metrics: Metrics of the cells.
        advance: Function that is called after each cell.

    Returns:
        Columns by the key of the cell. If a process is killed, for want of memory for example,
        cells are missing.
    """
    by_key = {spec.key: spec for spec in specs}
    num_processes = min(len(by_key), _count_cores(), _MOST_PROCESSES)
    context = multiprocessing.get_context("spawn")  # a fork would copy the locks of other threads
    columns_by_key: dict[str, CellColumns] = {}
    with (
        suppress(BrokenProcessPool),
        ProcessPoolExecutor(num_processes, context, _start_process, (metrics,)) as pool,
    ):
        for key, columns in zip(
            by_key,
            pool.map(_collect_in_process, map(_make_portable, by_key.values())),
            strict=True,
        ):
            columns_by_key[key] = columns
            advance()
    return columns_by_key


def _count_cores() -> int:
    """Return the number of cores for this process, which a container or scheduler may limit."""
    from joblib import cpu_count

    return int(cpu_count())


_process: dict[str, Any] = {}
"""A worker process's metrics and sample reader, which keeps the questions between cells."""


def _start_process(metrics: Sequence[Metric]) -> None:
    # records form no cycles, and looking for some among so many takes almost half of the time
    gc.disable()
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches all processes; the first one ends the others
    _process.update(metrics=metrics, reader=SampleReader())


def _collect_in_process(spec: CellSpec) -> CellColumns:
    return collect_columns(_process["reader"].read(spec), _process["metrics"])


def _make_portable(spec: CellSpec) -> CellSpec:
    """Return a copy without functions that open engines, which other processes cannot receive."""
    engines = tuple(replace(engine, open=_refuse) for engine in spec.engines)
    return replace(spec, strategy=_refuse, engines=engines, config={})


def _refuse(*_: object) -> Any:
    raise AssertionError("A process that computes metrics opens no engine.")
