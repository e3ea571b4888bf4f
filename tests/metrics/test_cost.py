"""Tokens, calls, seconds and dollars."""

import pytest

from winnow.metrics.base import Sample, evaluate
from winnow.metrics.cost import Consumption, Cost
from winnow.predictions import Prediction, Price, RoleUsage
from winnow.testing import make_sample


def test_costs_are_by_role() -> None:
    """Ten tokens in at 2 dollars and two out at 5 dollars a million, and a judge at 100: dollars a
    thousand questions.
    """
    usage = (
        RoleUsage("reader", 3, 10, 2, 0.5, tokens_reasoning=1),
        RoleUsage("judge", 1, 4, 0, 0.0),
        RoleUsage("search", 2, 0, 0, 0.25),
    )
    one = make_sample("x")
    prices = {"reader": Price(2.0, 5.0), "judge": Price(100.0, 0.0)}
    priced = Sample(one.question, Prediction("q0", "x", False, usage=usage), (), prices)
    assert Cost("money", "$").score(priced) == pytest.approx(1000 * (30e-6 + 400e-6))
    names = (
        "tokens_in",
        "tokens_out",
        "tokens_reasoning",
        "tokens",
        "calls",
        "searches",
        "seconds",
    )
    counts = {name: Consumption(name, name, of=name).score(priced) for name in names}  # type: ignore[arg-type]
    expected = {
        "tokens_in": 14,
        "tokens_out": 2,
        "tokens_reasoning": 1,
        "tokens": 16,
        "calls": 6,
        "searches": 2,
    }
    assert counts == {**expected, "seconds": 0.75}


def test_a_question_without_a_priced_call_costs_nothing() -> None:
    """A verifier at a price that one of two questions used: half its price a question, not all of
    it.
    """
    prices = {"verifier": Price(1000.0, 0.0)}
    usage = [(RoleUsage("verifier", 1, 2, 0, 0.0),), ()]
    samples = [
        Sample(make_sample("x").question, Prediction("q0", "x", False, usage=one), (), prices)
        for one in usage
    ]
    interval = evaluate([Cost("money", "$", "number")], samples)["money"]
    assert (interval.mean, interval.n) == (pytest.approx(1000 * 0.002 / 2), 2)
