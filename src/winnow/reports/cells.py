"""The cells of a report, with their labels, samples and metrics, and the tables built from them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from winnow.metrics.base import Metric, Row, Sample, aggregate, rows_by_metric
from winnow.metrics.comparisons import Comparison, compare
from winnow.metrics.intervals import UNDEFINED, Interval
from winnow.sweeps.labels import CellLabels


@dataclass(frozen=True)
class CellResult:
    """The samples of one cell with their metrics.

    Attributes:
        labels: Labels that identify the cell.
        samples: Questions of the cell with their predictions.
        metrics: Metrics that are columns of the tables. Comparisons use the first.
        judged: Rows of the judged metrics, by metric name.
        hidden: Further metrics that a paper's table or a plot needs.
        groups: Group of each sample in the breakdown, or empty without a breakdown.

    """

    labels: CellLabels
    samples: Sequence[Sample]
    metrics: Sequence[Metric]
    judged: Mapping[str, Sequence[Row | None]] = field(default_factory=dict)
    hidden: Sequence[Metric] = ()
    groups: Sequence[str] = ()

    @cached_property
    def rows(self) -> Mapping[str, Sequence[Row | None]]:
        """Return the rows of each metric, one per sample, by metric name."""
        return {**rows_by_metric([*self.metrics, *self.hidden], self.samples), **self.judged}

    def metric(self, name: str) -> Metric | None:
        """Return the metric of this name, or None if the cell does not have it."""
        return next((metric for metric in (*self.metrics, *self.hidden) if metric.name == name), None)

    def interval(self, name: str, seed: int) -> Interval:
        """Compute a metric over the cell with its 95 % interval, and cache it."""
        if (name, seed) not in self._intervals:
            metric = self.metric(name)
            assert metric is not None, name
            self._intervals[name, seed] = aggregate(metric, self.rows[name], seed)
        return self._intervals[name, seed]

    @cached_property
    def _intervals(self) -> dict[tuple[str, int], Interval]:
        return {}

    def text(self, name: str, seed: int) -> str:
        """Format a metric of the cell, or return an en dash if it is undefined or the cell does not have it."""
        metric = self.metric(name)
        return UNDEFINED if metric is None else metric.format(self.interval(name, seed))

    @cached_property
    def answers(self) -> Mapping[str, str]:
        """Return the answers by question id."""
        return {sample.question.question_id: sample.prediction.answer for sample in self.samples}

    def values(self, name: str) -> dict[str, float]:
        """Return the metric's value for each question for which it is defined, by question id."""
        metric = self.metric(name)
        assert metric is not None, name
        pairs = zip(self.samples, self.rows[name], strict=True)
        return {
            sample.question.question_id: value
            for sample, row in pairs
            if row is not None and (value := metric.value(row)) is not None
        }

    def subset(self, keep: Callable[[Sample], bool]) -> "CellResult":
        """Return the cell restricted to the samples for which `keep` is true."""
        return self._select([index for index, sample in enumerate(self.samples) if keep(sample)])

    def group(self, name: str) -> "CellResult":
        """Return the cell restricted to the samples of one group."""
        return self._select([index for index, group in enumerate(self.groups) if group == name])

    def _select(self, indices: Sequence[int]) -> "CellResult":
        return replace(
            self,
            samples=[self.samples[index] for index in indices],
            judged={name: [rows[index] for index in indices] for name, rows in self.judged.items()},
            groups=[self.groups[index] for index in indices] if self.groups else (),
        )


@dataclass(frozen=True, slots=True)
class TableView:
    """A table as text.

    Attributes:
        title: Heading of the table.
        caption: What the table covers.
        columns: Column names.
        rows: Values of each row, as text.

    """

    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def metrics_table(title: str, caption: str, cells: Sequence[CellResult], seed: int) -> TableView:
    """Build a table of all metrics with their 95 % intervals, with a row per cell."""
    metrics = cells[0].metrics
    rows = [[*_label_values(cell, cells), *(cell.text(metric.name, seed) for metric in metrics)] for cell in cells]
    return TableView(title, caption, [*_label_names(cells), *(metric.heading for metric in metrics)], rows)


def breakdown_table(cells: Sequence[CellResult], title: str, seed: int) -> TableView:
    """Build a table of the first metric by group, with a row per cell and the largest groups first.

    Each value is followed by its number of questions.
    """
    group_names = [name for name, _ in Counter(group for cell in cells for group in cell.groups).most_common()]
    metric = cells[0].metrics[0]
    groups = [[cell.group(name) for name in group_names] for cell in cells]
    rows = [
        [*_label_values(cell, cells), *(f"{group.text(metric.name, seed)} ({len(group.samples)})" for group in cell_groups)]
        for cell, cell_groups in zip(cells, groups, strict=True)
    ]
    caption = "number of questions of each group in brackets"
    return TableView(f"{metric.heading} by {title}", caption, [*_label_names(cells), *group_names], rows)


def _label_names(cells: Sequence[CellResult]) -> list[str]:
    names = ["strategy", "k", "gold"]
    return [*names, *(name for name in ("setting", "seed", "code") if any(getattr(cell.labels, name) for cell in cells))]


def _label_values(cell: CellResult, cells: Sequence[CellResult]) -> list[str]:
    return [str(getattr(cell.labels, name)) for name in _label_names(cells)]


def unit_scale(metric: Metric) -> float:
    """Return the factor that converts a metric's values to its unit: 100 for shares, else 1."""
    return 100.0 if metric.unit == "percent" else 1.0


def paired(first: CellResult, second: CellResult) -> bool:
    """Return whether two cells can be compared: they have the same question selection and at least one common question."""
    return first.labels.questions == second.labels.questions and not first.answers.keys().isdisjoint(second.answers)


def difference(first: CellResult, second: CellResult, metric: str, seed: int) -> Comparison | None:
    """Compare a metric of two cells on the questions for which both define it, or return None if there are none."""
    values = common_values(first, second, metric, seed)
    return None if values is None else compare(*values, seed=seed)


def common_values(
    first: CellResult, second: CellResult, metric: str, seed: int
) -> tuple[Sequence[float], Sequence[float]] | None:
    """Return the values of both cells for the questions for which both define the metric, or None if there are none."""
    if not (first.interval(metric, seed).n and second.interval(metric, seed).n):
        return None
    first_values, second_values = first.values(metric), second.values(metric)
    common_ids = [question_id for question_id in first_values if question_id in second_values]
    if not common_ids:
        return None
    return [first_values[i] for i in common_ids], [second_values[i] for i in common_ids]
