"""The cells of a report: their labels, samples and metrics, and their tables."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from winnow.metrics.base import Metric, Row, Sample, aggregate, rows_by_metric
from winnow.metrics.intervals import Comparison, Interval, compare
from winnow.sweeps.labels import CellLabels


@dataclass(frozen=True)
class CellResult:
    """The samples of one cell with their metrics.

    Attributes:
        labels: of the cell.
        samples: its questions with their predictions.
        metrics: the columns of its tables; comparisons use the first.
        judged: rows of the metrics that a model judged, by name.
        hidden: further metrics that a paper's table or a plot needs.
        groups: the breakdown's group of each sample, where there is one.

    """

    labels: CellLabels
    samples: Sequence[Sample]
    metrics: Sequence[Metric]
    judged: Mapping[str, Sequence[Row | None]] = field(default_factory=dict)
    hidden: Sequence[Metric] = ()
    groups: Sequence[str] = ()

    @cached_property
    def rows(self) -> Mapping[str, Sequence[Row | None]]:
        """Return each metric's rows, one per sample."""
        return {**rows_by_metric([*self.metrics, *self.hidden], self.samples), **self.judged}

    def metric(self, name: str) -> Metric | None:
        """Return a metric by name, None where the cell does not have it."""
        return next((metric for metric in (*self.metrics, *self.hidden) if metric.name == name), None)

    def interval(self, name: str, seed: int) -> Interval:
        """Return a metric of the cell with its 95 % interval."""
        if (name, seed) not in self._intervals:
            metric = self.metric(name)
            assert metric is not None, name
            self._intervals[name, seed] = aggregate(metric, self.rows[name], seed)
        return self._intervals[name, seed]

    @cached_property
    def _intervals(self) -> dict[tuple[str, int], Interval]:
        return {}

    def text(self, name: str, seed: int) -> str:
        """Return a metric of the cell as text, "-" where it is undefined."""
        metric = self.metric(name)
        return "-" if metric is None else metric.format(self.interval(name, seed))

    def values(self, name: str) -> dict[str, float]:
        """Return the metric's number of each question where it is defined, by question id."""
        metric = self.metric(name)
        assert metric is not None, name
        pairs = zip(self.samples, self.rows[name], strict=True)
        return {sample.question.question_id: metric.value(row) for sample, row in pairs if row is not None}

    def subset(self, keep: Callable[[Sample], bool]) -> "CellResult":
        """Return the cell with the samples that are kept."""
        return self._select([n for n, sample in enumerate(self.samples) if keep(sample)])

    def group(self, name: str) -> "CellResult":
        """Return the cell with the samples of one group."""
        return self._select([n for n, group in enumerate(self.groups) if group == name])

    def _select(self, positions: Sequence[int]) -> "CellResult":
        return replace(
            self,
            samples=[self.samples[n] for n in positions],
            judged={name: [rows[n] for n in positions] for name, rows in self.judged.items()},
            groups=[self.groups[n] for n in positions] if self.groups else (),
        )


@dataclass(frozen=True, slots=True)
class TableView:
    """A table as text: its title, what it covers, its column names and its cells."""

    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def metrics_table(title: str, caption: str, cells: Sequence[CellResult], seed: int) -> TableView:
    """Return every cell with every metric and its 95 % interval."""
    metrics = cells[0].metrics
    rows = [[*_label_values(cell, cells), *(cell.text(metric.name, seed) for metric in metrics)] for cell in cells]
    return TableView(title, caption, [*_label_names(cells), *(metric.title for metric in metrics)], rows)


def breakdown_table(cells: Sequence[CellResult], title: str, seed: int) -> TableView:
    """Return the first metric of every cell by group, the largest groups first; each value with its number of questions."""
    names = [name for name, _ in Counter(group for cell in cells for group in cell.groups).most_common()]
    metric = cells[0].metrics[0]
    groups = [[cell.group(name) for name in names] for cell in cells]
    rows = [
        [*_label_values(cell, cells), *(f"{group.text(metric.name, seed)} ({len(group.samples)})" for group in row)]
        for cell, row in zip(cells, groups, strict=True)
    ]
    caption = "in brackets: the number of questions in the cell's group"
    return TableView(f"{metric.title} by {title}", caption, [*_label_names(cells), *names], rows)


def _label_names(cells: Sequence[CellResult]) -> list[str]:
    names = ["strategy", "k", "gold"]
    return [*names, "setting"] if any(cell.labels.setting for cell in cells) else names


def _label_values(cell: CellResult, cells: Sequence[CellResult]) -> list[str]:
    labels = cell.labels
    return [labels.strategy, str(labels.k), labels.gold, labels.setting][: len(_label_names(cells))]


def comparisons_table(cells: Sequence[CellResult], seed: int) -> TableView:
    """Return each pair of cells that differ in strategy alone, or in setting alone, by the first metric.

    Pairs without a question in common, or where the metric is undefined, are left out.
    """
    metric = cells[0].metrics[0]
    rows = []
    for n, second in enumerate(cells):
        for first in cells[n + 1 :]:
            left, right = first.labels, second.labels
            if (left.k, left.gold) != (right.k, right.gold) or not paired(first, second):
                continue
            if left.strategy != right.strategy and left.setting != right.setting:
                continue
            result = difference(first, second, metric.name, seed)
            if result is not None:
                rows.append([left.line, right.line, str(left.k), left.gold, result.signed(scale_of(metric)), result.p_text])
    caption = (
        "paired bootstrap, and McNemar's exact test where values are 0 or 1, on the same questions; p is not corrected for "
        "the number of pairs"
    )
    columns = ["A", "B", "k", "gold", f"{metric.title}: A - B", "p"]
    return TableView("Differences between strategies and settings", caption, columns, rows)


def scale_of(metric: Metric) -> float:
    """Return the factor from a metric's values to its unit: 100 for shares."""
    return 100.0 if metric.unit == "percent" else 1.0


def paired(first: CellResult, second: CellResult) -> bool:
    """Return whether two cells answered the same questions, and have answers to some in common."""
    ids = {sample.question.question_id for sample in first.samples}
    same = first.labels.questions == second.labels.questions
    return same and not ids.isdisjoint(sample.question.question_id for sample in second.samples)


def difference(first: CellResult, second: CellResult, metric: str, seed: int) -> Comparison | None:
    """Compare a metric of two cells on the questions where both define it, matched by id; None if there are none."""
    if not (first.interval(metric, seed).n and second.interval(metric, seed).n):
        return None
    left, right = first.values(metric), second.values(metric)
    ids = [question_id for question_id in left if question_id in right]
    if not ids:
        return None
    return compare([left[i] for i in ids], [right[i] for i in ids], seed=seed)
