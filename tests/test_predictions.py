"""Predictions add up what all roles used, and prices count a million tokens."""

import pytest

from winnow.predictions import Prediction, Price, RoleUsage


def test_usage_is_summed_over_roles() -> None:
    """A prediction without calls used nothing."""
    used = (
        RoleUsage("reader", 2, 30, 4, tokens_reasoning=3),
        RoleUsage("search", 3, 0, 0),
        RoleUsage("judge", 1, 5, 6),
    )
    prediction = Prediction("q", "a", False, usage=used)
    assert (prediction.calls, prediction.tokens_in, prediction.tokens_out) == (6, 35, 10)
    assert prediction.tokens_reasoning == 3
    assert (Prediction("q", "a", False).calls, Prediction("q", "a", False).tokens_in) == (0, 0)


def test_a_price_is_of_a_million_tokens() -> None:
    """In both directions."""
    assert Price(2.0, 8.0).compute_cost(500_000, 250_000) == pytest.approx(3.0)
    assert Price().compute_cost(10**6, 10**6) == 0.0


def test_a_price_is_that_of_a_million_tokens() -> None:
    """Tokens that are read and written have prices of their own."""
    price = Price(input=2.5, output=10.0)
    assert price.compute_cost(1_000_000, 0) == 2.5
    assert price.compute_cost(0, 200_000) == 2.0
    assert price.compute_cost(400_000, 100_000) == 2.0
    assert Price().compute_cost(5, 5) == 0
