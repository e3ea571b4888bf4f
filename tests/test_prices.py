"""Prices of models."""

from winnow.prices import Price


def test_a_price_is_that_of_a_million_tokens() -> None:
    """Tokens that are read and written have prices of their own."""
    price = Price(input=2.5, output=10.0)
    assert price.compute_cost(1_000_000, 0) == 2.5
    assert price.compute_cost(0, 200_000) == 2.0
    assert price.compute_cost(400_000, 100_000) == 2.0
    assert Price().compute_cost(5, 5) == 0
