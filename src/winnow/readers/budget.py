"""A budget in dollars and tokens for the new calls of a run, and the record of its spending."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol, runtime_checkable

from annotated_types import Ge

from winnow.errors import BudgetError, ConfigError
from winnow.identity.values import check_values
from winnow.predictions import Price
from winnow.requests import Usage


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits on what a run may spend on new calls. None means no limit.

    Attributes:
        money: Maximum cost in dollars.
        tokens: Maximum number of prompt and reply tokens together.
    """

    revision: ClassVar[int] = 1

    money: Annotated[float, Ge(0)] | None = None
    tokens: Annotated[int, Ge(0)] | None = None

    def __post_init__(self) -> None:
        check_values("reader.engine.budget", self)


class Spending:
    """A record of what a run has spent, which keeps the run within its budget.

    An upper bound on the usage of a call is reserved before the call and replaced by the actual
    usage after it. The upper bound is an estimate, because the tokenizers of remote models are not
    available. In scripts with many tokens per character, the last calls in flight may exceed the
    budget.

    Attributes:
        spent: Usage of all finished calls.
    """

    def __init__(self, budget: Budget, price: Price) -> None:
        """Start with nothing spent. Raise ConfigError for a dollar budget without a model price."""
        if budget.money is not None and price == Price():
            raise ConfigError(
                f"reader.engine.budget.money is {budget.money}, but this model has no price. Add "
                "its price to conf/prices, or set reader.engine.budget.tokens instead."
            )
        self.budget, self.price = budget, price
        self.spent = Usage()
        self._reserved = Usage()

    def reserve(self, max_usage: Usage) -> bool:
        """Reserve a call's maximum usage; return False if the unreserved budget is too small."""
        total = self.spent + self._reserved + max_usage
        cost = self.price.compute_cost(total.tokens_in, total.tokens_out)
        tokens = total.tokens_in + total.tokens_out
        exceeds_money = self.budget.money is not None and cost > self.budget.money
        exceeds_tokens = self.budget.tokens is not None and tokens > self.budget.tokens
        if exceeds_money or exceeds_tokens:
            return False
        self._reserved += max_usage
        return True

    def commit(self, max_usage: Usage, actual: Usage) -> None:
        """Release a finished call's reserved usage, and add its actual usage to what is spent."""
        self._reserved += Usage(-max_usage.tokens_in, -max_usage.tokens_out)
        self.spent += actual

    def charge_lost_call(self, max_usage: Usage) -> None:
        """Add the maximum usage of a call whose reply was lost, as the server may charge for it."""
        self.spent += max_usage

    def build_budget_error(self) -> BudgetError:
        """Build the error to raise when the budget does not cover the next call."""
        dollars = self.price.compute_cost(self.spent.tokens_in, self.spent.tokens_out)
        cost = f" ({dollars:.4f} dollars)" if self.price != Price() else ""
        limits = [f"{self.budget.money} dollars"] if self.budget.money is not None else []
        limits += [f"{self.budget.tokens} tokens"] if self.budget.tokens is not None else []
        return BudgetError(
            f"The next call might exceed the budget of {' and '.join(limits)}: "
            f"{self.spent.tokens_in} tokens in and {self.spent.tokens_out} tokens out are "
            f"spent{cost}. Finished calls are in the ledger. To continue, raise "
            "reader.engine.budget and run the command again."
        )


@runtime_checkable
class PaidEngine(Protocol):
    """An engine whose calls cost something."""

    spending: Spending
    """What the run has spent, which engines of one budget share."""
