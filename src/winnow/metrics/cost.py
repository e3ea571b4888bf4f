"""Cost of a question in tokens, calls and dollars, counted as if the question had been run alone.

Seconds are no metric: they depend on which other calls shared a batch, so that they do not compare strategies. Predictions
and the ledger keep them, `--dry-run` estimates by them, and `bench/` measures speed.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from winnow.metrics.base import MeanMetric, Sample


@dataclass(frozen=True)
class Consumption(MeanMetric):
    """Resources that a prediction used, summed over all roles. "tokens" is the sum of "tokens_in" and "tokens_out"."""

    revision: ClassVar[int] = 1

    of: Literal["tokens_in", "tokens_out", "tokens", "calls"] = "tokens"

    def score(self, sample: Sample) -> float:
        """Return the amount that the prediction used."""
        prediction = sample.prediction
        if self.of == "tokens":
            return float(prediction.tokens_in + prediction.tokens_out)
        return float(getattr(prediction, self.of))


@dataclass(frozen=True)
class Cost(MeanMetric):
    """Dollars per `questions` questions, with each role at the price of its model. Undefined if no model has a price."""

    revision: ClassVar[int] = 1

    questions: int = 1000

    def score(self, sample: Sample) -> float | None:
        """Compute the dollars; roles without a price are not counted."""
        if not sample.prices:
            return None
        priced = [usage for usage in sample.prediction.usage if usage.role in sample.prices]
        return self.questions * sum(sample.prices[usage.role].of(usage.tokens_in, usage.tokens_out) for usage in priced)
