"""Cost of a question in tokens, calls and dollars, counted as if the question had been run alone.

Time is not a metric, because the seconds of a call depend on the other calls of its batch, so that they do not compare
strategies. Predictions and the ledger (the store of finished model calls) contain them, `--dry-run` uses them to estimate the
duration of a run, and `bench/` measures speed.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from winnow.metrics.base import MeanMetric, Sample


@dataclass(frozen=True)
class Consumption(MeanMetric):
    """Tokens or calls that a prediction used, summed over the models of all roles.

    Args:
        of: Resource to count. "tokens" is the sum of "tokens_in" and "tokens_out".

    """

    revision: ClassVar[int] = 1

    of: Literal["tokens_in", "tokens_out", "tokens", "calls"] = "tokens"

    def score(self, sample: Sample) -> float:
        """Return the number of tokens or calls that the prediction used."""
        prediction = sample.prediction
        if self.of == "tokens":
            return float(prediction.tokens_in + prediction.tokens_out)
        return float(getattr(prediction, self.of))


@dataclass(frozen=True)
class Cost(MeanMetric):
    """Cost in dollars, where the calls of each role have the price of its model. It is undefined if no model has a price.

    Args:
        questions: Number of questions to which the printed cost refers.

    """

    revision: ClassVar[int] = 1

    questions: int = 1000

    def score(self, sample: Sample) -> float | None:
        """Compute the cost in dollars of `questions` questions like this one. Roles without a price are not counted."""
        if not sample.prices:
            return None
        priced = [usage for usage in sample.prediction.usage if usage.role in sample.prices]
        dollars = sum(sample.prices[usage.role].compute_cost(usage.tokens_in, usage.tokens_out) for usage in priced)
        return self.questions * dollars
