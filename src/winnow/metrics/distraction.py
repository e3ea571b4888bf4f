"""How often passages without an answer draw one from the reader, that is, distract it."""

from dataclasses import dataclass
from typing import ClassVar

from winnow.metrics.base import Input, RatioMetric, Sample
from winnow.text.containment import has_answer

ANSWERED = "answered: "
"""Label of the trace entry with the positions of the contexts that drew an answer when they were read alone, or "none"."""


@dataclass(frozen=True)
class DistractingEffect(RatioMetric):
    """Share of *placed* passages without an answer that draw one other than "unknown" when the reader sees them alone.

    Gold passages, and those whose title contains an answer, count as passages with an answer. A passage draws an answer if at
    least one of the replies to it is one. Strategies that read each passage alone (Post-Fusion, PF + Concat, and the fallback
    of Concat + PF for the questions that need it) record which do; the metric is undefined for others.
    """

    revision: ClassVar[int] = 1
    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction", "placed"})

    def compute_terms(self, sample: Sample) -> tuple[float, float]:
        """Return the number of passages without an answer that draw one, and that of all passages without an answer."""
        entry = next((entry for entry in sample.prediction.trace if entry.startswith(ANSWERED)), None)
        if entry is None:
            return 0.0, 0.0
        answered = {int(word) for word in entry.removeprefix(ANSWERED).split() if word != "none"}
        irrelevant = {
            position
            for position, context in enumerate(sample.placed, start=1)
            if not (context.is_gold or context.has_answer or has_answer(context.passage.title, sample.question.answers))
        }
        return float(len(answered & irrelevant)), float(len(irrelevant))
