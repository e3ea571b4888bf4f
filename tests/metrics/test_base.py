"""The base classes of metrics: formats, own values of questions, aggregates and their seeds."""

from dataclasses import dataclass, replace

import pytest

from winnow.metrics.base import MeanMetric, Metric, RatioMetric, Sample, aggregate, evaluate
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
    """Both bounds too; one decimal unless the component says otherwise, and a ratio with its counts."""
    number = _Length("length", "letters", "number")
    interval = number.aggregate([{"length": 2.0}, {"length": 2.0}])
    assert number.format(interval) == "2.0 [2.0, 2.0]"
    assert replace(number, digits=0).format(interval) == "2 [2, 2]"
    share = _Length("length", "letters")
    assert share.format(share.aggregate([{"length": 1.0}])) == "100.0 [20.7, 100.0]"
    assert _Vowels("v", "v").format(evaluate([_Vowels("v", "v")], _samples("aab"))["v"]).endswith("(2/3)")


def test_a_number_of_0_or_1_is_no_share() -> None:
    """Calls per question that are all 1 are exactly 1; a share of 1 of 1 may be 20 %."""
    rows = [{"length": 1.0}]
    number, share = (_Length("length", "x", unit).aggregate(rows) for unit in ("number", "percent"))  # type: ignore[arg-type]
    assert (number.low, number.high) == (1.0, 1.0)
    assert (share.low, share.high) == (pytest.approx(0.2065, abs=1e-4), 1.0)


def test_the_own_ratio_of_a_question() -> None:
    """Its part of its whole, undefined without a whole; rewards count the undefined as 0."""
    metric = _Vowels("v", "v")
    assert [metric.compute_value(metric.compute_row(one)) for one in _samples("bab", "")] == [pytest.approx(1 / 3), None]
    assert [metric.compute_reward(one) for one in _samples("bab", "")] == [pytest.approx(1 / 3), 0.0]


def test_undefined_questions_are_left_out_of_a_mean_but_not_of_a_ratio() -> None:
    """A question that adds nothing still belongs to the questions that a bootstrap draws."""
    length, vowels = _Length("length", "letters", "number"), _Vowels("v", "v")
    rows = [length.compute_row(one) for one in _samples("ab", "", "abcd")]
    assert rows == [{"length": 2.0}, None, {"length": 4.0}]
    assert (aggregate(length, rows).mean, aggregate(length, rows).n) == (3.0, 2)
    assert vowels.compute_row(_samples("")[0]) == {"part": 0.0, "whole": 0.0}


@pytest.mark.parametrize("metric", [_Length("length", "letters", "number"), _Vowels("v", "v")])
def test_a_seed_repeats_an_interval_and_0_is_the_default(metric: Metric) -> None:
    """Of single metrics and of `evaluate` alike."""
    rows = [row for one in ANSWERS if (row := metric.compute_row(one)) is not None]
    default = metric.aggregate(rows)
    assert default == metric.aggregate(rows, 0) == aggregate(metric, rows) == evaluate([metric], ANSWERS)[metric.name]
    others = [metric.aggregate(rows, 7), aggregate(metric, rows, 7), evaluate([metric], ANSWERS, 7)[metric.name]]
    assert others == [others[0]] * 3
    assert (others[0].mean, others[0].low != default.low or others[0].high != default.high) == (default.mean, True)
    assert metric.aggregate(rows, 1) != default != metric.aggregate(rows, 2**32 - 1)


def test_metrics_are_components_that_do_not_change() -> None:
    """Equal settings are equal metrics, which can be keys; the base classes cannot be instantiated."""
    assert {_Length("length", "x"): 1}[_Length("length", "x")] == 1
    assert _Length("length", "x").headline
    for base in (Metric, MeanMetric, RatioMetric):
        with pytest.raises(TypeError, match="abstract"):
            base("name", "title")  # type: ignore[abstract]
