"""The base classes of metrics: one row per question, and an aggregate of the rows with its interval.

Metrics are components (conf/metric/<name>.yaml). They are computed from stored predictions, so that adding a metric does not
require new predictions. The same objects compute the reward of a single reply in training.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from winnow.metrics.intervals import Interval, mean_interval, ratio_interval, undefined_interval
from winnow.records import Context, Plan, Prediction, Price, Question, Role

Input = Literal["prediction", "contexts", "ranking"]
Unit = Literal["percent", "number"]
Row = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Sample:
    """The inputs of a metric for one question.

    `contexts` and `ranking` are empty unless a metric or breakdown declares that input.

    Attributes:
        question: Question with its accepted answers.
        prediction: Prediction for the question.
        contexts: Contexts of the prompt, in prompt order.
        prices: Price of the model of each role, if it has one.
        ranking: Contexts as ranked by the retriever, best first, to the depth that is stored.

    """

    question: Question
    prediction: Prediction
    contexts: Sequence[Context] = ()
    prices: Mapping[Role, Price] = field(default_factory=dict)
    ranking: Sequence[Context] = ()


@dataclass(frozen=True)
class Metric(ABC):
    """Base class of metrics. Each metric is a column of every table.

    Attributes:
        name: Identifier of the metric in metrics.json and MLflow.
        title: Column heading without a dialect.
        unit: "percent" for shares between 0 and 1, "number" for anything else.
        digits: Number of decimals if the unit is "number".
        headline: Whether the table that a sweep prints includes the metric; reports and MLflow always do.

    """

    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction"})
    """Inputs that the metric needs besides the question. Contexts and rankings are read only if a metric needs them."""

    name: str
    title: str
    unit: Unit = "percent"
    digits: int = 1
    headline: bool = True

    @property
    def heading(self) -> str:
        """Return the column heading, which names the dialect if it is not the usual one."""
        return self.title

    @abstractmethod
    def row(self, sample: Sample) -> Row | None:
        """Compute the values of one question, or return None if the metric is undefined for it."""

    @abstractmethod
    def aggregate(self, rows: Sequence[Row], seed: int = 0) -> Interval:
        """Aggregate the rows into one value with its 95 % interval, or `undefined_interval()` if there are no rows."""

    def value(self, row: Row) -> float | None:
        """Return the single value of a question that rewards and paired comparisons use, or None if it is undefined."""
        return row[self.name]

    def reward(self, sample: Sample) -> float:
        """Compute the value of one sample, or 0 if the metric is undefined for it."""
        row = self.row(sample)
        value = None if row is None else self.value(row)
        return 0.0 if value is None else value

    def format(self, interval: Interval) -> str:
        """Format an interval as text, or as an en dash if it is undefined."""
        return interval.percent() if self.unit == "percent" else interval.plain(self.digits)


@dataclass(frozen=True)
class MeanMetric(Metric):
    """Base class of metrics that average one score per question."""

    @abstractmethod
    def score(self, sample: Sample) -> float | None:
        """Compute the score of one question, or return None if it is undefined."""

    def row(self, sample: Sample) -> Row | None:
        """Return the score under the metric's name, or None if it is undefined."""
        score = self.score(sample)
        return None if score is None else {self.name: float(score)}

    def aggregate(self, rows: Sequence[Row], seed: int = 0) -> Interval:
        """Compute the mean score with its interval."""
        values = np.array([row[self.name] for row in rows], dtype=np.float64)
        is_share = self.unit == "percent"
        return mean_interval(values, share=is_share, seed=seed) if len(values) else undefined_interval()


@dataclass(frozen=True)
class RatioMetric(Metric):
    """Base class of metrics that divide a sum over questions by another one, such as a share of replies."""

    @abstractmethod
    def counts(self, sample: Sample) -> tuple[float, float]:
        """Compute what one question adds to the numerator and to the denominator."""

    def row(self, sample: Sample) -> Row:
        """Return the counts, also of a question that adds nothing, because the interval resamples all questions."""
        part, whole = self.counts(sample)
        return {"part": part, "whole": whole}

    def value(self, row: Row) -> float | None:
        """Return the question's own ratio, or None if it adds nothing to the denominator."""
        return row["part"] / row["whole"] if row["whole"] else None

    def aggregate(self, rows: Sequence[Row], seed: int = 0) -> Interval:
        """Compute the ratio of the sums with its interval and its counts."""
        if not rows:
            return undefined_interval()
        return ratio_interval([row["part"] for row in rows], [row["whole"] for row in rows], seed=seed)


@dataclass(frozen=True)
class JudgedMetric(MeanMetric):
    """Base class of metrics that a model computes.

    Each sample has a plan whose requests have the role "judge". The driver runs it and stores the results in the ledger.
    """

    @abstractmethod
    def plan(self, sample: Sample) -> Plan[float | None]:
        """Start the plan that judges one sample. The plan returns the score, or None if the reply contains none."""

    def score(self, sample: Sample) -> float | None:
        """Raise TypeError, because only the plan can compute the score."""
        raise TypeError(f"{self.name}: question {sample.question.question_id!r} is scored by a judge; run its plan.")


def rows_by_metric(metrics: Sequence[Metric], samples: Sequence[Sample]) -> dict[str, list[Row | None]]:
    """Compute one row per sample for each metric, keyed by metric name; judged metrics are left out."""
    return {
        metric.name: [metric.row(sample) for sample in samples] for metric in metrics if not isinstance(metric, JudgedMetric)
    }


def aggregate(metric: Metric, rows: Sequence[Row | None], seed: int = 0) -> Interval:
    """Aggregate a metric over the rows in which it is defined."""
    return metric.aggregate([row for row in rows if row is not None], seed)


def evaluate(metrics: Sequence[Metric], samples: Sequence[Sample], seed: int = 0) -> dict[str, Interval]:
    """Compute the metrics over the samples, keyed by metric name; judged metrics are left out."""
    rows = rows_by_metric(metrics, samples)
    return {metric.name: aggregate(metric, rows[metric.name], seed) for metric in metrics if metric.name in rows}


def required_inputs(components: Sequence[Any]) -> frozenset[Input]:
    """Collect the inputs that the metrics and breakdowns declare."""
    return frozenset().union(*(component.inputs for component in components))
