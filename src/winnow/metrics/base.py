"""The base classes of metrics: one row per question, and an aggregate of the rows with its interval.

Metrics are components (conf/metric/<name>.yaml). They are computed when predictions are read, so a new one needs no new
prediction; the same objects give the reward of a single reply in training.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from winnow.metrics.intervals import Interval, mean_interval
from winnow.records import Context, Plan, Prediction, Price, Question, Role

Input = Literal["prediction", "contexts", "ranking"]
Unit = Literal["percent", "number"]
Row = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Sample:
    """The inputs of a metric for one question.

    `contexts` are the placed ones in prompt order, and `ranking` the retriever's, best first, as deep as it is stored; both
    are present only where a metric or breakdown declares that input.
    """

    question: Question
    prediction: Prediction
    contexts: Sequence[Context] = ()
    prices: Mapping[Role, Price] = field(default_factory=dict)
    ranking: Sequence[Context] = ()


@dataclass(frozen=True)
class Metric(ABC):
    """One column of every table.

    Attributes:
        name: identifies the metric in metrics.json and MLflow.
        title: heads its column.
        unit: "percent" for shares between 0 and 1, "number" for anything else.
        digits: decimals of a number.
        headline: whether the terminal's closing table shows it; reports and MLflow always do.

    """

    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction"})
    """Inputs that it needs in addition to the question; contexts and ranking are read only if a metric needs them."""

    name: str
    title: str
    unit: Unit = "percent"
    digits: int = 1
    headline: bool = True

    @abstractmethod
    def row(self, sample: Sample) -> Row | None:
        """Return the question's values, None where the metric is undefined for it."""

    @abstractmethod
    def aggregate(self, rows: Sequence[Row], seed: int = 0) -> Interval:
        """Return the metric over these rows with its 95 % interval; over no rows, `undefined_interval()`."""

    def value(self, row: Row) -> float:
        """Return the question's single number, for rewards and paired comparisons."""
        return row[self.name]

    def reward(self, sample: Sample) -> float:
        """Return the value of one sample, 0 where the metric is undefined for it."""
        row = self.row(sample)
        return 0.0 if row is None else self.value(row)

    def format(self, interval: Interval) -> str:
        """Return an interval as text, "-" where it is undefined."""
        if not interval.n:
            return "-"
        return interval.percent() if self.unit == "percent" else interval.plain(self.digits)


@dataclass(frozen=True)
class MeanMetric(Metric):
    """A metric that is the mean of one number per question."""

    @abstractmethod
    def score(self, sample: Sample) -> float | None:
        """Return the question's number, None where it is undefined."""

    def row(self, sample: Sample) -> Row | None:
        """Return the number under the metric's name."""
        score = self.score(sample)
        return None if score is None else {self.name: float(score)}

    def aggregate(self, rows: Sequence[Row], seed: int = 0) -> Interval:
        """Return the mean with its bootstrap interval."""
        values = np.array([row[self.name] for row in rows], dtype=np.float64)
        return mean_interval(values, seed=seed) if len(values) else undefined_interval()


@dataclass(frozen=True)
class JudgedMetric(MeanMetric):
    """A metric that a model computes: a plan whose requests have the role "judge", run by the driver into the ledger."""

    @abstractmethod
    def plan(self, sample: Sample) -> Plan[float | None]:
        """Start the plan that judges one sample; it returns the number, None where the reply gives none."""

    def score(self, sample: Sample) -> float | None:
        """Raise: the number comes from the plan."""
        raise TypeError(f"{self.name}: question {sample.question.question_id!r} is scored by a judge; run its plan.")


def undefined_interval() -> Interval:
    """Return the interval of a metric that is undefined for every question."""
    return Interval(math.nan, math.nan, math.nan, 0)


def rows_by_metric(metrics: Sequence[Metric], samples: Sequence[Sample]) -> dict[str, list[Row | None]]:
    """Return each metric's rows, one per sample, by its name; judged metrics are left out."""
    return {m.name: [m.row(sample) for sample in samples] for m in metrics if not isinstance(m, JudgedMetric)}


def aggregate(metric: Metric, rows: Sequence[Row | None], seed: int = 0) -> Interval:
    """Return a metric over the rows where it is defined."""
    return metric.aggregate([row for row in rows if row is not None], seed)


def evaluate(metrics: Sequence[Metric], samples: Sequence[Sample], seed: int = 0) -> dict[str, Interval]:
    """Compute all metrics on some samples, by metric name."""
    rows = rows_by_metric(metrics, samples)
    return {metric.name: aggregate(metric, rows[metric.name], seed) for metric in metrics if metric.name in rows}


def required_inputs(components: Sequence[Any]) -> frozenset[Input]:
    """Return the inputs that some metrics and breakdowns declare."""
    return frozenset().union(*(component.inputs for component in components))
