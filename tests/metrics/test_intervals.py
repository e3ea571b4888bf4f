"""Intervals and paired tests against numbers worked out by hand."""

import pytest

from winnow.errors import InputError
from winnow.metrics.intervals import compare, mcnemar, mean_interval


def test_interval_holds_the_mean_and_repeats() -> None:
    """Half right of 400: mean 0.5, about plus or minus 0.049; the same seed gives the same bounds."""
    result = mean_interval([0.0, 1.0] * 200)
    assert result.mean == 0.5
    assert result.low == pytest.approx(0.451, abs=0.01)
    assert result.high == pytest.approx(0.549, abs=0.01)
    assert result == mean_interval([0.0, 1.0] * 200)
    assert result.percent().startswith("50.0 [45")


def test_constant_values_have_no_width() -> None:
    """All alike: the interval is the value."""
    result = mean_interval([1.0, 1.0, 1.0])
    assert (result.low, result.high) == (1.0, 1.0)


def test_mcnemar_by_hand() -> None:
    """Five questions only the first gets right, none the other way: p = 2 / 2**5."""
    assert mcnemar([1] * 5 + [1, 0], [0] * 5 + [1, 0]) == pytest.approx(2 / 32)
    assert mcnemar([1, 0], [1, 0]) == 1.0


def test_compare_is_paired() -> None:
    """The difference is question by question; different lengths are refused."""
    result = compare([1.0, 1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0])
    assert result.signed() == "+25.0 [+0.0, +75.0]"
    assert result.difference == 0.25
    with pytest.raises(InputError, match="same questions"):
        compare([1.0], [1.0, 0.0])


@pytest.mark.parametrize("bad", [[], [0.5, float("nan")]])
def test_bad_values_are_refused(bad: list[float]) -> None:
    """No value, or a NaN, is never averaged."""
    with pytest.raises(InputError):
        mean_interval(bad)


def test_mcnemar_is_for_zeros_and_ones() -> None:
    """A comparison of token counts has an interval and no p-value."""
    result = compare([130.0, 120.0], [1030.0, 1020.0])
    assert (result.difference, result.p_text) == (-900.0, "-")
    assert compare([1.0, 0.0], [1.0, 0.0]).p_text == "1.000"
