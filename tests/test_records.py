"""Records check themselves."""

import pytest

from winnow.errors import ConfigError
from winnow.predictions import Price
from winnow.records import Decoding, Usage


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        ({"max_new_tokens": 0}, "at least 1"),
        ({"temperature": -1}, "greedy"),
        ({"top_p": 0}, "top_p"),
    ],
)
def test_decoding_out_of_range(bad: dict[str, float], word: str) -> None:
    """Each setting is named with its value."""
    with pytest.raises(ConfigError, match=word):
        Decoding(**bad)  # type: ignore[arg-type]


def test_usage_adds_up() -> None:
    """Token by token."""
    assert Usage(1, 2) + Usage(3, 4) == Usage(4, 6)


def test_usages_are_equal_if_their_tokens_are() -> None:
    """The time is not compared."""
    assert Usage(1, 2, seconds=3.0) == Usage(1, 2, seconds=4.0)
    assert Usage(1, 2, 1) != Usage(1, 2)
    total = Usage(1, 2, 1, 0.5) + Usage(10, 20, 10, 0.25)
    assert (total, total.seconds) == (Usage(11, 22, 11), 0.75)
    assert Usage(1, 2) != Usage(1, 3)
    assert Usage(1, 2) != Usage(2, 2)
    assert Usage(1, 2) != (1, 2, 0.0)


def test_a_price_is_that_of_a_million_tokens() -> None:
    """Tokens that are read and written have prices of their own."""
    price = Price(input=2.5, output=10.0)
    assert price.compute_cost(1_000_000, 0) == 2.5
    assert price.compute_cost(0, 200_000) == 2.0
    assert price.compute_cost(400_000, 100_000) == 2.0
    assert Price().compute_cost(5, 5) == 0
