"""Base classes of metrics: one row per question, aggregated into a value with an interval.

A metric is configured by conf/metric/<name>.yaml. It is computed from stored predictions, so that a
new metric does not require new predictions. In training, the same metric computes the reward of a
single reply.
"""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from winnow.errors import ConfigError, InputError
from winnow.identity.values import check_values
from winnow.metrics.intervals import (
    UNDEFINED,
    Interval,
    build_undefined_interval,
    compute_mean_interval,
    compute_ratio_interval,
)
from winnow.predictions import Prediction, Price
from winnow.records import Context, Question, Role
from winnow.requests import Plan
from winnow.text.answers import extract_whole_answer

Input = Literal["prediction", "placed", "shown", "ranking"]
"""Field of `Sample` that a metric or breakdown may need besides the question."""

Unit = Literal["percent", "number"]

Row = Mapping[str, float]
"""Values that a metric computes for one question, by column name."""

Columns = Mapping[str, NDArray[np.float64]]
"""Rows of several questions as one vector per column."""


@dataclass(frozen=True)
class Rows:
    """The rows of one metric for the questions of a cell, as columns.

    Attributes:
        is_defined: (questions,) Whether the metric is defined for each question.
        columns: Values of the questions for which it is defined, by column name; empty if there are
            none.
    """

    is_defined: NDArray[np.bool_]
    columns: Columns

    @classmethod
    def collect(cls, rows: Iterable[Row | None]) -> "Rows":
        """Convert rows, which are None where the metric is undefined."""
        builder = RowsBuilder()
        for row in rows:
            builder.add(row)
        return builder.build()

    def select(self, indices: NDArray[np.int64]) -> "Rows":
        """Return the rows of the questions with these indices."""
        positions = np.cumsum(self.is_defined) - 1
        is_defined = self.is_defined[indices]
        rows = positions[indices[is_defined]]
        columns = {name: values[rows] for name, values in self.columns.items()} if len(rows) else {}
        return Rows(is_defined, columns)


class RowsBuilder:
    """Collects the rows of one metric, one question after another."""

    def __init__(self) -> None:
        """Begin without rows."""
        self._is_defined: list[bool] = []
        self._columns: dict[str, array[float]] = {}

    def add(self, row: Row | None) -> None:
        """Add the row of the next question, which is None if the metric is undefined for it."""
        self._is_defined.append(row is not None)
        if row is not None:
            for name, value in row.items():
                if name not in self._columns:
                    self._columns[name] = array("d")
                self._columns[name].append(value)

    def build(self) -> Rows:
        """Return the rows as columns.

        Raises:
            InputError: If a value is not finite, or if the rows do not have the same columns.
        """
        num_defined = sum(self._is_defined)
        columns = {
            name: np.array(values, dtype=np.float64) for name, values in self._columns.items()
        }
        for name, values in columns.items():
            if len(values) != num_defined:
                raise InputError(
                    f"Column {name!r} has {len(values)} values for {num_defined} rows. Every row "
                    "needs one."
                )
            if not np.isfinite(values).all():
                raise InputError(
                    f"Column {name!r} has the value {values[~np.isfinite(values)][0]}. Return None "
                    "for a question without a value."
                )
        return Rows(np.array(self._is_defined, dtype=np.bool_), columns)


@dataclass(frozen=True, slots=True)
class Shown:
    """What the reader saw of passages, as the driver recorded it.

    Attributes:
        contexts: Distinct contexts of all prompts of the question, in the order in which they were
            shown first.
        last: Contexts of the prompt that led to the reply, in prompt order.
        rounds: Distinct contexts of the prompts of each round that prompted the reader.
        queries: Queries that were searched for, in their order.
    """

    contexts: tuple[Context, ...] = ()
    last: tuple[Context, ...] = ()
    rounds: tuple[tuple[Context, ...], ...] = ()
    queries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """The inputs of a metric for one question.

    The fields `placed`, `shown` and `ranking` are empty unless a metric or breakdown lists them in
    its `inputs`.

    Attributes:
        question: Question with its accepted answers.
        prediction: Prediction for the question.
        placed: Contexts that the placement gave the strategy, in prompt order: what the experiment
            manipulates.
        prices: Price of the model of each role. Roles whose model has no price are missing.
        ranking: All stored contexts of the question in the order of the retriever, best first.
        shown: Contexts that the reader's prompts showed: what it saw. None if the steps of the cell
            were not recorded.
    """

    question: Question
    prediction: Prediction
    placed: Sequence[Context] = ()
    prices: Mapping[Role, Price] = field(default_factory=dict)
    ranking: Sequence[Context] = ()
    shown: Shown | None = None

    @property
    def whole_answer(self) -> str:
        """Return the whole text of a longer answer, of which the prediction has the first line."""
        return extract_whole_answer(self.prediction.reply, self.prediction.answer)


@dataclass(frozen=True)
class Metric(ABC):
    """Base class of metrics. Each metric is a column of the result tables.

    Attributes:
        name: Identifier of the metric in metrics.json and MLflow.
        title: Column heading. A metric with several published variants (dialects) may add the
            variant's name to it.
        unit: "percent" for a share between 0 and 1, which is printed in percent; "number" for any
            other value.
        digits: Number of decimals to print if the unit is "number".
        headline: Whether the table that a sweep prints includes the metric. Reports and MLflow
            include every metric.
        lower_is_better: Whether a low value is what one wants, such as a cost or a share
            of errors.
    """

    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction"})
    """Inputs that the metric needs besides the question; the others are not read. "placed" and
    "shown" differ wherever a strategy shows parts of passages, leaves some out, or searches for
    others. A metric of what the reader saw needs "shown".
    """

    name: str
    title: str
    unit: Unit = "percent"
    digits: Annotated[int, Ge(0)] = 1
    headline: bool = True
    lower_is_better: bool = False

    def __post_init__(self) -> None:
        check_values(f"metric.{self.name}", self)
        _check_inputs(self)

    @property
    def direction(self) -> int:
        """Return the sign of an improvement: 1 if higher values are better, -1 if lower ones."""
        return -1 if self.lower_is_better else 1

    @property
    def heading(self) -> str:
        """Return the column heading, to which subclasses may add a published variant's name."""
        return self.title

    @abstractmethod
    def compute_row(self, sample: Sample) -> Row | None:
        """Compute the values of one question, or return None if the metric is undefined for it."""

    @abstractmethod
    def aggregate(self, columns: Columns, seed: int = 0) -> Interval:
        """Aggregate the questions into one value with its 95 % interval, which may be undefined.

        Args:
            columns: Columns of the questions for which the metric is defined, of which there is at
                least one.
            seed: Seed of the bootstrap.
        """

    def compute_values(self, columns: Columns) -> NDArray[np.float64]:
        """Return each question's value for paired comparisons and rewards, or NaN if undefined."""
        return columns[self.name]

    def compute_value(self, row: Row) -> float | None:
        """Return the value of `compute_values` for one question, or None if it is undefined.

        Raises:
            InputError: If a value of the row is NaN.
        """
        if any(np.isnan(number) for number in row.values()):
            raise InputError(
                f"Metric {self.name!r} computed the row {dict(row)}. Return None for a question "
                "without a value."
            )
        value = float(
            self.compute_values(
                {name: np.array([number], np.float64) for name, number in row.items()}
            )[0]
        )
        return None if np.isnan(value) else value

    def format(self, interval: Interval) -> str:
        """Format an interval in the unit of the metric, or as an en dash if it is undefined."""
        return (
            interval.format_percent()
            if self.unit == "percent"
            else interval.format_number(self.digits)
        )

    def format_mean(self, interval: Interval) -> str:
        """Format an interval's mean in the metric's unit, or as an en dash if it is undefined."""
        return self.format_value(interval.mean) if interval.n else UNDEFINED

    def format_value(self, value: float) -> str:
        """Format a value, such as one question's, in the unit of the metric."""
        return f"{100 * value:.1f}" if self.unit == "percent" else f"{value:.{self.digits}f}"


@dataclass(frozen=True)
class MeanMetric(Metric):
    """Base class of metrics that average one score per question."""

    @abstractmethod
    def score(self, sample: Sample) -> float | None:
        """Compute the score of one question, or return None if it is undefined."""

    def compute_row(self, sample: Sample) -> Row | None:
        """Return the score under the metric's name, or None if it is undefined."""
        score = self.score(sample)
        if isinstance(score, str):
            raise InputError(f"Metric {self.name!r} computed the text {score!r}, not a number.")
        return None if score is None else {self.name: float(score)}

    def aggregate(self, columns: Columns, seed: int = 0) -> Interval:
        """Compute the mean score with its 95 % interval."""
        return compute_mean_interval(columns[self.name], is_share=self.unit == "percent", seed=seed)


@dataclass(frozen=True)
class RatioMetric(Metric):
    """Base class of metrics that divide one sum over questions by another, such as the share of
    replies that are empty.
    """

    @abstractmethod
    def compute_terms(self, sample: Sample) -> tuple[float, float]:
        """Compute the amounts that one question adds to the numerator and to the denominator."""

    def compute_row(self, sample: Sample) -> Row:
        """Return the amounts added to the numerator ("part") and to the denominator ("whole").

        A question that adds nothing has a row too, because the interval is computed by resampling
        all questions.
        """
        part, whole = self.compute_terms(sample)
        return {"part": part, "whole": whole}

    def compute_values(self, columns: Columns) -> NDArray[np.float64]:
        """Return the ratio of each question, or NaN where its denominator is 0."""
        part, whole = columns["part"], columns["whole"]
        ratios: NDArray[np.float64] = np.divide(
            part, whole, out=np.full(len(part), np.nan), where=whole != 0
        )
        return ratios

    def aggregate(self, columns: Columns, seed: int = 0) -> Interval:
        """Compute the ratio of both sums with its 95 % interval."""
        return compute_ratio_interval(columns["part"], columns["whole"], seed=seed)


@dataclass(frozen=True)
class JudgedMetric(MeanMetric):
    """Base class of metrics for which a judge, a model that grades answers, scores each question.

    Subclasses implement `plan`. The driver runs the plans and stores the judge's replies in the
    ledger, the store of finished model calls.
    """

    roles: ClassVar[tuple[Role, ...]] = ("judge",)
    """Roles of the engines that the plans ask."""

    @abstractmethod
    def plan(self, sample: Sample) -> Plan[float | None]:
        """Yield requests with one of `roles`, and return the score, or None if no reply has one."""

    def score(self, sample: Sample) -> float | None:
        """Raise TypeError, because the score requires a reply of the judge."""
        raise TypeError(
            f"Metric {self.name!r} cannot score question {sample.question.question_id!r} without "
            "its judge. Run the metric's `plan` with a driver instead of calling `score`."
        )


def compute_rows(metrics: Sequence[Metric], samples: Iterable[Sample]) -> dict[str, Rows]:
    """Compute the rows of all but judged metrics, keyed by name, in one pass over the samples."""
    builders = [
        (metric, RowsBuilder()) for metric in metrics if not isinstance(metric, JudgedMetric)
    ]
    for sample in samples:
        for metric, builder in builders:
            builder.add(metric.compute_row(sample))
    return {metric.name: builder.build() for metric, builder in builders}


def compute_all_values(metric: Metric, rows: Rows) -> NDArray[np.float64]:
    """Return each question's value (see `Metric.compute_values`), or NaN where it is undefined."""
    values = np.full(len(rows.is_defined), np.nan)
    if rows.columns:
        values[rows.is_defined] = metric.compute_values(rows.columns)
    return values


def aggregate(metric: Metric, rows: Rows, seed: int = 0) -> Interval:
    """Aggregate a metric over questions with a value. Without any, the result is undefined."""
    return metric.aggregate(rows.columns, seed) if rows.columns else build_undefined_interval()


def evaluate(
    metrics: Sequence[Metric], samples: Sequence[Sample], seed: int = 0
) -> dict[str, Interval]:
    """Compute the metrics over the samples, keyed by metric name. Judged metrics are omitted."""
    rows = compute_rows(metrics, samples)
    return {
        metric.name: aggregate(metric, rows[metric.name], seed)
        for metric in metrics
        if metric.name in rows
    }


def collect_inputs(components: Sequence[Any]) -> frozenset[Input]:
    """Return all inputs that the given metrics and breakdowns need.

    Raises:
        ConfigError: If one declares an input that there is not, so that it would not be read.
    """
    for component in components:
        _check_inputs(component)
    return frozenset().union(*(component.inputs for component in components))


def _check_inputs(component: Any) -> None:
    """Raise ConfigError if a metric or breakdown declares an input that there is not."""
    inputs = component.inputs
    if isinstance(inputs, str) or set(inputs) - set(get_args(Input)):
        raise ConfigError(
            f"{type(component).__qualname__}.inputs={inputs!r}: there is no such input. A set of "
            f"{', '.join(map(repr, get_args(Input)))} is expected."
        )
