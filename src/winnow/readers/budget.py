"""The budget of a run, in dollars and in tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from winnow.errors import BudgetError, ConfigError
from winnow.records import Price, Usage


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on the dollars and tokens (read and written) that a run spends on new calls. None means no limit."""

    revision: ClassVar[int] = 1

    money: float | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        """Raise ConfigError if a limit is negative."""
        if (self.money or 0) < 0 or (self.tokens or 0) < 0:
            raise ConfigError(f"reader.budget: money and tokens are 0 or more, or null; received {self}.")


class Spending:
    """Keeps a run within its budget.

    An upper bound on the usage of a call is reserved before the call and replaced by the actual usage after it. The upper
    bound is an estimate, because the tokenizers of remote models are not available. In scripts with many tokens per
    character, the last calls in flight may exceed the budget.
    """

    def __init__(self, budget: Budget, price: Price) -> None:
        """Start with nothing spent. Raise ConfigError if the budget is in dollars and the model has no price."""
        if budget.money is not None and price == Price():
            raise ConfigError(
                "reader.budget.money is set, but this model has no price. Add it to conf/prices, or budget tokens."
            )
        self.budget, self.price = budget, price
        self.spent = Usage()
        self._reserved = Usage()

    def reserve(self, max_usage: Usage) -> bool:
        """Reserve the maximum usage of a call; return False if the budget does not cover it and the calls in flight."""
        total = self.spent + self._reserved + max_usage
        cost = self.price.of(total.tokens_in, total.tokens_out)
        tokens = total.tokens_in + total.tokens_out
        if (self.budget.money is not None and cost > self.budget.money) or (
            self.budget.tokens is not None and tokens > self.budget.tokens
        ):
            return False
        self._reserved += max_usage
        return True

    def commit(self, max_usage: Usage, actual: Usage) -> None:
        """Replace the reserved usage of a call by its actual usage."""
        self._reserved += Usage(-max_usage.tokens_in, -max_usage.tokens_out)
        self.spent += actual

    def charge(self, max_usage: Usage) -> None:
        """Count the maximum usage of a call whose reply was lost but may be billed."""
        self.spent += max_usage

    def exhausted(self) -> BudgetError:
        """Build the error that ends the run."""
        dollars = self.price.of(self.spent.tokens_in, self.spent.tokens_out)
        cost = f" ({dollars:.4f} dollars)" if self.price != Price() else ""
        limits = [f"{self.budget.money} dollars"] if self.budget.money is not None else []
        limits += [f"{self.budget.tokens} tokens"] if self.budget.tokens is not None else []
        return BudgetError(
            f"The next call might exceed the budget of {' and '.join(limits)}: {self.spent.tokens_in} tokens in and "
            f"{self.spent.tokens_out} out are spent{cost}. Every answer is in the ledger; raise "
            "reader.engine.budget and run again to continue."
        )
