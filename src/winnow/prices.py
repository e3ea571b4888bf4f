"""Prices of models."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a model in dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0

    def compute_cost(self, tokens_in: float, tokens_out: float) -> float:
        """Compute the cost of these tokens in dollars."""
        return (tokens_in * self.input + tokens_out * self.output) / 1e6
