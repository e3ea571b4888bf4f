"""The cells of a report and the tables that are built from them.

A cell is one setting of a sweep: a strategy, a number of contexts k and a placement of the gold
passage.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from winnow.artifacts.sequences import LazySequence
from winnow.metrics.base import Metric, Row, Rows, Sample, aggregate, compute_all_values
from winnow.metrics.comparisons import POINTS, Comparison, Unit, compare
from winnow.metrics.intervals import UNDEFINED, Interval
from winnow.reports.columns import CellColumns, collect_columns
from winnow.sweeps.labels import CellLabels


@dataclass(frozen=True)
class CellResult:
    """The samples of one cell with their metrics.

    Attributes:
        labels: Labels that identify the cell.
        samples: Questions of the cell with their predictions. Tables are built from `columns`; what
            needs a whole sample reads it from here.
        metrics: Metrics that are columns of the tables. Comparisons use the first one.
        judged: Rows of the metrics that a model computes, by metric name, with one row per sample.
        hidden: Metrics that are not columns of the tables, but that a plot or a comparison with a
            paper needs.
        groups: Group of each sample in the breakdown, such as its answer type. It is empty if there
            is not a breakdown.
        has_steps: Whether the steps of the cell were recorded, without which metrics of what was
            shown are undefined.
        known: Columns of these samples and metrics, without the judged ones, if they were computed
            already.
        judges: Number of replies by which the answers were judged, by role and model.
    """

    labels: CellLabels
    samples: Sequence[Sample]
    metrics: Sequence[Metric]
    judged: Mapping[str, Sequence[Row | None]] = field(default_factory=dict)
    hidden: Sequence[Metric] = ()
    groups: Sequence[str] = ()
    has_steps: bool = True
    known: CellColumns | None = field(default=None, repr=False, compare=False)
    judges: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @cached_property
    def columns(self) -> CellColumns:
        """Return the metrics and what else reports need of the samples, which are computed once."""
        columns = self.known or collect_columns(self.samples, [*self.metrics, *self.hidden])
        assert len(columns.question_ids) == len(self.samples), (
            "The columns belong to other samples."
        )
        judged_rows = {name: Rows.collect(rows) for name, rows in self.judged.items()}
        return replace(columns, rows={**columns.rows, **judged_rows})

    @property
    def headlines(self) -> list[Metric]:
        """Return the metrics of short tables: the first one and those marked as headlines."""
        return [metric for metric in self.metrics if metric.headline or metric is self.metrics[0]]

    @property
    def num_questions(self) -> int:
        """Return the number of questions."""
        return len(self.columns.question_ids)

    def find_metric(self, name: str) -> Metric | None:
        """Return the metric with this name, or None if the cell does not have it."""
        return next(
            (metric for metric in (*self.metrics, *self.hidden) if metric.name == name), None
        )

    def compute_interval(self, name: str, seed: int) -> Interval:
        """Compute and cache a metric over all samples of the cell, with its 95 % interval.

        Args:
            name: Name of a metric of the cell.
            seed: Seed of the bootstrap.
        """
        if (name, seed) not in self._intervals:
            metric = self.find_metric(name)
            assert metric is not None, name
            self._intervals[name, seed] = aggregate(metric, self.columns.rows[name], seed)
        return self._intervals[name, seed]

    @cached_property
    def _intervals(self) -> dict[tuple[str, int], Interval]:
        return {}

    def format_metric(self, name: str, seed: int) -> str:
        """Format a metric with its 95 % interval, or an en dash if it is undefined or missing."""
        metric = self.find_metric(name)
        return (
            UNDEFINED
            if metric is None
            else metric.format(self.compute_interval(name, seed)) + self._format_n(name, seed)
        )

    def format_mean(self, name: str, seed: int) -> str:
        """Format the mean of a metric, or an en dash if it is undefined or missing."""
        metric = self.find_metric(name)
        text = (
            UNDEFINED if metric is None else metric.format_mean(self.compute_interval(name, seed))
        )
        return text if metric is None else text + self._format_n(name, seed)

    def _format_n(self, name: str, seed: int) -> str:
        """Return the number of questions of a partial value, unless counts of a ratio show it."""
        interval = self.compute_interval(name, seed)
        is_partial = 0 < interval.n < self.num_questions and interval.counts is None
        return f" (n {interval.n})" if is_partial else ""

    @cached_property
    def answers(self) -> Mapping[str, str]:
        """Return the predicted answers by question id."""
        return dict(zip(self.columns.question_ids, self.columns.answers, strict=True))

    def compute_values(self, name: str) -> NDArray[np.float64]:
        """Return a metric's value for each question, or NaN if undefined. The result is cached."""
        if name not in self._values:
            metric = self.find_metric(name)
            assert metric is not None, name
            self._values[name] = compute_all_values(metric, self.columns.rows[name])
        return self._values[name]

    @cached_property
    def _values(self) -> dict[str, NDArray[np.float64]]:
        return {}

    def get_values(self, name: str) -> dict[str, float]:
        """Return a metric's values by question id, without questions for which it is undefined."""
        values = self.compute_values(name)
        pairs = zip(
            self.columns.question_ids, values.tolist(), (~np.isnan(values)).tolist(), strict=True
        )
        return {question_id: value for question_id, value, is_defined in pairs if is_defined}

    def select_questions(self, question_ids: Collection[str]) -> "CellResult":
        """Return a copy of the cell with only the questions that have one of these ids."""
        return self._select(
            [index for index, name in enumerate(self.columns.question_ids) if name in question_ids]
        )

    def select_group(self, name: str) -> "CellResult":
        """Return a copy of the cell with only the questions of one group."""
        return self._select([index for index, group in enumerate(self.groups) if group == name])

    def _select(self, indices: Sequence[int]) -> "CellResult":
        return replace(
            self,
            samples=_Selection(self.samples, indices),
            judged={name: [rows[index] for index in indices] for name, rows in self.judged.items()},
            groups=[self.groups[index] for index in indices] if self.groups else (),
            known=self.columns.select(indices),
        )


class _Selection(LazySequence[Sample]):
    """Some of the samples of a cell, which are read when they are used."""

    def __init__(self, samples: Sequence[Sample], indices: Sequence[int]) -> None:
        self._samples, self._indices = samples, indices

    def __len__(self) -> int:
        return len(self._indices)

    def read(self, index: int) -> Sample:
        return self._samples[self._indices[index]]


def have_same_questions(cells: Sequence[CellResult]) -> bool:
    """Return whether all cells answer the same questions."""
    return len({tuple(cell.columns.question_ids) for cell in cells}) == 1


def format_question_count(cells: Sequence[CellResult]) -> str:
    """Format the number of questions of the cells, or the smallest and the largest number."""
    numbers = sorted({cell.num_questions for cell in cells})
    return f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else str(numbers[0])


def list_label_names(cells: Sequence[CellResult]) -> list[str]:
    """Return the labels that are table columns. Optional ones are included if any cell has them."""
    optional_names = [
        name
        for name in ("setting", "seed", "code")
        if any(getattr(cell.labels, name) for cell in cells)
    ]
    return ["strategy", "k", "gold", *optional_names]


def list_label_values(cell: CellResult, cells: Sequence[CellResult]) -> list[str]:
    """Return the labels of one cell as text, in the order of `list_label_names(cells)`."""
    return [str(getattr(cell.labels, name)) for name in list_label_names(cells)]


def name_cells(cells: Sequence[CellResult]) -> list[str]:
    """Return a name for each cell that is stable across revisions; equal names are numbered."""
    names = [
        " ".join(filter(None, [r.labels.line, f"k={r.labels.k}", r.labels.gold])) for r in cells
    ]
    counts = Counter(names)
    occurrences: Counter[str] = Counter()
    for index, name in enumerate(names):
        occurrences[name] += 1
        if counts[name] > 1:
            names[index] = f"{name} ({occurrences[name]})"
    return names


def get_unit_scale(metric: Metric) -> float:
    """Return the factor that converts a metric's values to its unit: 100 for percent, else 1."""
    return 100.0 if metric.unit == "percent" else 1.0


def get_unit(metric: Metric) -> Unit:
    """Return the unit in which differences of a metric are printed, with a decimal at least."""
    return POINTS if metric.unit == "percent" else Unit(1.0, max(1, metric.digits))


def can_compare(first: CellResult, second: CellResult) -> bool:
    """Return whether two cells have the same selection of questions and at least one in common."""
    if first.labels.questions != second.labels.questions:
        return False
    if first.columns.question_ids == second.columns.question_ids:
        return bool(first.columns.question_ids)
    return not first.answers.keys().isdisjoint(second.answers)


def have_equal_results(first: CellResult, second: CellResult, metric: str) -> bool:
    """Return whether two cells give every question the same answer and the same value of a metric.

    Equal answers alone are not enough: replies may differ in their citations, and calls in their
    cost.
    """
    if first.columns.question_ids != second.columns.question_ids:
        return first.answers == second.answers and first.get_values(metric) == second.get_values(
            metric
        )
    values = first.compute_values(metric), second.compute_values(metric)
    return first.columns.answers == second.columns.answers and np.array_equal(
        *values, equal_nan=True
    )


def compare_cells(
    first: CellResult, second: CellResult, metric: str, seed: int
) -> Comparison | None:
    """Compare a metric of two cells on the questions for which it is defined in both.

    Returns:
        Paired comparison of the first cell with the second, or None if there are no such questions.
    """
    values = get_common_values(first, second, metric, seed)
    return None if values is None else compare(*values, seed=seed)


def get_common_values(
    first: CellResult, second: CellResult, metric: str, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the values of a metric on the questions for which it is defined in both cells.

    Returns:
        Values of the first and of the second cell in the same order of questions, or None if there
        are no such questions.
    """
    if not (first.compute_interval(metric, seed).n and second.compute_interval(metric, seed).n):
        return None
    if first.columns.question_ids == second.columns.question_ids:
        first_values, second_values = first.compute_values(metric), second.compute_values(metric)
        is_common = ~(np.isnan(first_values) | np.isnan(second_values))
        return (first_values[is_common], second_values[is_common]) if is_common.any() else None
    first_by_id, second_by_id = first.get_values(metric), second.get_values(metric)
    common_ids = [question_id for question_id in first_by_id if question_id in second_by_id]
    if not common_ids:
        return None
    return np.array([first_by_id[name] for name in common_ids]), np.array(
        [second_by_id[name] for name in common_ids]
    )
