"""Whether a reader uses what it cites."""

from dataclasses import dataclass
from typing import ClassVar

from winnow.metrics.base import MeanMetric, Sample

CHANGED = "changed: "
"""Label of the trace entry with "yes" if removing passages changed an answer, or else "no"."""


@dataclass(frozen=True)
class Changed(MeanMetric):
    """Share of answers that change when passages are removed from the prompt.

    Defined for replies that were asked again (`strategy=cite_without_cited` and
    `cite_without_uncited`): those with a valid citation and enough passages that are not cited.
    Citations are used if the share without the cited passages is larger than that without as many
    others.
    """

    revision: ClassVar[int] = 1

    def score(self, sample: Sample) -> float | None:
        """Return 1.0 if the answer changed, 0.0 if not, and None if it was not asked for again."""
        entry = next(
            (entry for entry in sample.prediction.trace if entry.startswith(CHANGED)), None
        )
        return None if entry is None else float(entry == f"{CHANGED}yes")
