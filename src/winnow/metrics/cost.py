"""What a question costs, counted as if it had run alone: tokens, calls, seconds, dollars."""

from dataclasses import dataclass
from typing import Literal

from winnow.metrics.base import MeanMetric, Sample


@dataclass(frozen=True)
class Consumption(MeanMetric):
    """A count of the prediction, over all roles; "tokens" are those read and written together."""

    of: Literal["tokens_in", "tokens_out", "tokens", "calls", "seconds"] = "tokens"

    def score(self, sample: Sample) -> float:
        """Return the count."""
        prediction = sample.prediction
        if self.of == "tokens":
            return float(prediction.tokens_in + prediction.tokens_out)
        return float(getattr(prediction, self.of))


@dataclass(frozen=True)
class Cost(MeanMetric):
    """Dollars for `questions` questions, each role at its own model's price; undefined where no model has one."""

    questions: int = 1000

    def score(self, sample: Sample) -> float | None:
        """Return the dollars."""
        if not sample.prices:
            return None
        prices = [(part, sample.prices[part.role]) for part in sample.prediction.usage if part.role in sample.prices]
        return self.questions * sum(price.of(part.tokens_in, part.tokens_out) for part, price in prices)
