"""The base classes of metrics: formats, own values of questions, aggregates and their seeds."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from winnow.errors import ConfigError, InputError
from winnow.metrics.base import (
    MeanMetric,
    Metric,
    RatioMetric,
    Rows,
    Sample,
    aggregate,
    compute_all_values,
    evaluate,
)
from winnow.testing import make_sample


@dataclass(frozen=True)
class _Length(MeanMetric):
    """The length of the answer, undefined if it is empty."""

    def score(self, sample: Sample) -> float | None:
        return float(len(sample.prediction.answer)) or None


@dataclass(frozen=True)
class _Vowels(RatioMetric):
    """The vowels of all answers, by their letters."""

    def compute_terms(self, sample: Sample) -> tuple[float, float]:
        answer = sample.prediction.answer
        return float(sum(letter in "aeiou" for letter in answer)), float(len(answer))


def _samples(*answers: str) -> list[Sample]:
    return [make_sample(answer, number) for number, answer in enumerate(answers)]


ANSWERS = _samples(*("a" * (n * n % 13) + "xyz" * (n * 7 % 5) + "b" for n in range(40)))


def test_a_share_is_in_percent_and_a_number_in_its_digits() -> None:
    """Both bounds too; one decimal unless the component says otherwise, and a ratio with its
    counts.
    """
    number = _Length("length", "letters", "number")
    interval = number.aggregate({"length": np.array([2.0, 2.0])})
    assert number.format(interval) == "2.0 [2.0, 2.0]"
    assert replace(number, digits=0).format(interval) == "2 [2, 2]"
    share = _Length("length", "letters")
    assert share.format(share.aggregate({"length": np.array([1.0])})) == "100.0 [20.7, 100.0]"
    assert (
        _Vowels("v", "v")
        .format(evaluate([_Vowels("v", "v")], _samples("aab"))["v"])
        .endswith("(2/3)")
    )


def test_a_number_of_0_or_1_is_no_share() -> None:
    """Calls per question that are all 1 are exactly 1; a share of 1 of 1 may be 20 %."""
    columns = {"length": np.array([1.0])}
    number, share = (
        _Length("length", "x", unit).aggregate(columns) for unit in ("number", "percent")
    )  # type: ignore[arg-type]
    assert (number.low, number.high) == (1.0, 1.0)
    assert (share.low, share.high) == (pytest.approx(0.2065, abs=1e-4), 1.0)


def test_the_own_ratio_of_a_question() -> None:
    """Its part of its whole, undefined without a whole."""
    metric = _Vowels("v", "v")
    assert [metric.compute_value(metric.compute_row(one)) for one in _samples("bab", "")] == [
        pytest.approx(1 / 3),
        None,
    ]


def test_undefined_questions_are_left_out_of_a_mean_but_not_of_a_ratio() -> None:
    """A question that adds nothing still belongs to the questions that a bootstrap draws."""
    length, vowels = _Length("length", "letters", "number"), _Vowels("v", "v")
    rows = [length.compute_row(one) for one in _samples("ab", "", "abcd")]
    assert rows == [{"length": 2.0}, None, {"length": 4.0}]
    assert (
        aggregate(length, Rows.collect(rows)).mean,
        aggregate(length, Rows.collect(rows)).n,
    ) == (3.0, 2)
    assert vowels.compute_row(_samples("")[0]) == {"part": 0.0, "whole": 0.0}


@pytest.mark.parametrize("metric", [_Length("length", "letters", "number"), _Vowels("v", "v")])
def test_a_seed_repeats_an_interval_and_0_is_the_default(metric: Metric) -> None:
    """Of single metrics and of `evaluate` alike."""
    rows = Rows.collect(metric.compute_row(one) for one in ANSWERS)
    columns = rows.columns
    default = metric.aggregate(columns)
    assert (
        default
        == metric.aggregate(columns, 0)
        == aggregate(metric, rows)
        == evaluate([metric], ANSWERS)[metric.name]
    )
    others = [
        metric.aggregate(columns, 7),
        aggregate(metric, rows, 7),
        evaluate([metric], ANSWERS, 7)[metric.name],
    ]
    assert others == [others[0]] * 3
    assert (others[0].mean, others[0].low != default.low or others[0].high != default.high) == (
        default.mean,
        True,
    )
    assert metric.aggregate(columns, 1) != default != metric.aggregate(columns, 2**32 - 1)


def test_metrics_are_components_that_do_not_change() -> None:
    """Equal settings are equal metrics, which can be keys; the base classes cannot be
    instantiated.
    """
    assert {_Length("length", "x"): 1}[_Length("length", "x")] == 1
    assert _Length("length", "x").headline
    for base in (Metric, MeanMetric, RatioMetric):
        with pytest.raises(TypeError, match="abstract"):
            base("name", "title")  # type: ignore[abstract]


def test_rows_are_columns_of_the_defined_questions() -> None:
    """Selected in any order, with repetitions; a metric that is undefined for all of the selected
    has no columns.
    """
    metric = _Vowels("v", "v")
    rows = Rows.collect(
        [
            {"part": 1.0, "whole": 2.0},
            None,
            {"part": 0.0, "whole": 0.0},
            {"part": 3.0, "whole": 3.0},
        ]
    )
    assert rows.is_defined.tolist() == [True, False, True, True]
    assert rows.columns["part"].tolist() == [1.0, 0.0, 3.0]
    assert str(compute_all_values(metric, rows).tolist()) == "[0.5, nan, nan, 1.0]"
    chosen = rows.select(np.array([3, 1, 0, 3]))
    assert str(compute_all_values(metric, chosen).tolist()) == "[1.0, nan, 0.5, 1.0]"
    assert aggregate(metric, chosen).counts == (7.0, 8.0)
    empty = rows.select(np.array([1]))
    assert (empty.columns, aggregate(metric, empty).n) == ({}, 0)
    assert np.isnan(compute_all_values(metric, empty)).all()
    assert aggregate(metric, Rows.collect([])).n == 0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"a": 1.0}, {"a": float("nan")}], "'a' has the value nan"),
        ([{"a": 1.0, "b": 1.0}, {"a": 2.0}], "'b' has 1 values for 2 rows"),
        ([{"a": 1.0}, None, {"b": 2.0}], "'a' has 1 values for 2 rows"),
    ],
)
def test_rows_that_would_shift_a_column_are_refused(
    rows: list[dict[str, float] | None], message: str
) -> None:
    """A value may be missing only with its whole row."""
    with pytest.raises(InputError, match=message):
        Rows.collect(rows)


def test_a_score_that_is_no_finite_number_is_an_error() -> None:
    """It would be the mean of a column."""

    @dataclass(frozen=True)
    class Given(MeanMetric):
        value: Any = None

        def score(self, sample: Sample) -> Any:
            return self.value

    for value, message in ((float("inf"), "the value inf"), ("3", "the text '3'")):
        with pytest.raises(InputError, match=message):
            evaluate([Given("g", "g", value=value)], _samples("a"))


@pytest.mark.parametrize("inputs", [("rankings",), "shown", frozenset({"palced"})])
def test_an_input_that_there_is_not_is_refused(inputs: Any) -> None:
    """A metric would compute its value of contexts that were not read."""

    class Misspelled(_Length):
        """A metric with a slip in its declaration."""

    Misspelled.inputs = inputs
    with pytest.raises(ConfigError, match=r"Misspelled\.inputs=.* there is no such input"):
        Misspelled("m", "m")


def test_a_score_that_is_nan_is_an_error() -> None:
    """Of one question and of several."""

    @dataclass(frozen=True)
    class Nan(MeanMetric):
        def score(self, sample: Sample) -> float:
            return float(sample.prediction.answer)

    metric = Nan("n", "n")
    assert metric.compute_value({"n": 0.5}) == 0.5
    with pytest.raises(InputError, match=r"'n' computed the row \{'n': nan\}"):
        metric.compute_value({"n": float("nan")})
    with pytest.raises(InputError, match="the value nan"):
        evaluate([Nan("n", "n")], _samples("0.5", "nan"))
