"""Budgets: what a call may cost at most is set aside before it is made."""

import pytest

from winnow.errors import ConfigError
from winnow.predictions import Price
from winnow.readers.budget import Budget, Spending
from winnow.requests import Usage


def test_tokens_are_reserve_and_settled() -> None:
    """Of 100 tokens, two calls of at most 40 fit at once; what they leave over serves a third."""
    spending = Spending(Budget(tokens=100), Price())
    most = Usage(30, 10)
    assert [spending.reserve(most) for _ in range(3)] == [True, True, False]
    spending.commit(most, Usage(30, 2))
    assert not spending.reserve(most)
    spending.commit(most, Usage(20, 5))
    assert spending.reserve(most)
    assert spending.spent == Usage(50, 7)


def test_money_needs_a_price() -> None:
    """One dollar buys a million tokens at this price; without any price a budget in money means
    nothing.
    """
    spending = Spending(Budget(money=1.0), Price(1.0, 2.0))
    assert spending.reserve(Usage(600_000, 100_000))
    assert not spending.reserve(Usage(200_001, 0))
    assert "budget of 1.0 dollars" in str(spending.build_budget_error())
    with pytest.raises(ConfigError, match="has no price"):
        Spending(Budget(money=1.0), Price())
    with pytest.raises(ConfigError, match="at least 0, or null; received"):
        Budget(money=-1)
