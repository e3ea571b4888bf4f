"""Cost of a question in tokens, calls, seconds and dollars, counted as if it had run alone."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from winnow.metrics.base import MeanMetric, Sample
from winnow.records import Role

_SEARCHING: tuple[Role, ...] = ("search", "corpus")
"""Roles whose calls are searches."""


@dataclass(frozen=True)
class Consumption(MeanMetric):
    """Tokens, calls, searches or seconds that a prediction used, summed over the engines of all
    roles.

    Args:
        of: Resource to count. "tokens" is the sum of "tokens_in" and "tokens_out", which includes
            "tokens_reasoning"; "calls" includes "searches". "seconds" is the time of the engines
            when the calls were made, shared equally within a batch. It depends on batches and on
            the machine: it says where time goes, and `bench/` compares speeds. "tokens_reasoning"
            is what a server reports or a local tokenizer counts; of a server that returns the
            reasoning without a count, it is the reasoning's share of the reply's characters.
    """

    revision: ClassVar[int] = 1

    of: Literal[
        "tokens_in", "tokens_out", "tokens_reasoning", "tokens", "calls", "searches", "seconds"
    ] = "tokens"

    def score(self, sample: Sample) -> float:
        """Return the amount of the resource that the prediction used."""
        prediction = sample.prediction
        if self.of == "tokens":
            return float(prediction.tokens_in + prediction.tokens_out)
        if self.of == "searches":
            return float(sum(usage.calls for usage in prediction.usage if usage.role in _SEARCHING))
        return float(getattr(prediction, self.of))


@dataclass(frozen=True)
class Cost(MeanMetric):
    """Cost in dollars, where the calls of each role have the price of its model. It is undefined if
    no model has a price.

    Args:
        questions: Number of questions to which the printed cost refers.
    """

    revision: ClassVar[int] = 1

    questions: Annotated[int, Ge(1)] = 1000

    def score(self, sample: Sample) -> float | None:
        """Compute the cost in dollars of `questions` such questions, without unpriced roles."""
        if not sample.prices:
            return None
        priced_usages = [usage for usage in sample.prediction.usage if usage.role in sample.prices]
        dollars = sum(
            sample.prices[usage.role].compute_cost(usage.tokens_in, usage.tokens_out)
            for usage in priced_usages
        )
        return self.questions * dollars
