"""Share of questions that the reader answers with "unknown"."""

from dataclasses import dataclass
from typing import ClassVar

from winnow.metrics.base import MeanMetric, Sample


@dataclass(frozen=True)
class Unknown(MeanMetric):
    """Share of questions whose final answer is "unknown" (%Unk)."""

    revision: ClassVar[int] = 1

    def score(self, sample: Sample) -> float:
        """Return 1.0 if the final answer is "unknown", else 0.0."""
        return float(sample.prediction.unknown)
