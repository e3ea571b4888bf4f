"""How often single passages without an answer draw one, and how useful all passages are."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.metrics.base import Input, MeanMetric, RatioMetric, Sample
from winnow.text.containment import has_answer

ANSWERED = "answered: "
"""Label of the trace entry with the positions of contexts that alone drew an answer, or "none"."""


@dataclass(frozen=True)
class DistractingEffect(RatioMetric):
    """Share of *placed* passages without an answer that draw one other than "unknown" when the
    reader sees them alone.

    Gold passages, and those whose title contains an answer, count as passages with an answer. A
    passage draws an answer if at least one of the replies to it is one. Strategies that read each
    passage alone (Post-Fusion, PF + Concat, and the fallback of Concat + PF for the questions that
    need it) record which do; the metric is undefined for others, and for questions without accepted
    answers and gold passages.
    """

    revision: ClassVar[int] = 2
    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction", "placed"})

    def compute_terms(self, sample: Sample) -> tuple[float, float]:
        """Return how many passages without an answer draw one, and how many there are in all."""
        answered_positions = _read_answered(sample)
        if answered_positions is None or not _has_labels(sample):
            return 0.0, 0.0
        irrelevant = set(range(1, len(sample.placed) + 1)) - _find_relevant(sample)
        return float(len(answered_positions & irrelevant)), float(len(irrelevant))


@dataclass(frozen=True)
class Udcg(MeanMetric):
    """UDCG, the utility of the placed passages to the reader (Trappolini et al. 2025), from 0.42 to
    0.73 with k passages.

    UDCG = sigmoid((A - w B) / k), where A is the number of relevant passages from which the reader
    answers when it sees each alone, B that of the irrelevant ones, and w the weight of the harm. As
    in the authors' code, which divides both sums by all k passages (their README divides each by
    its own number). Their utility is one minus the probability of the first token of a refusal;
    here a passage counts as 1 or 0 by the reply, because the calls are those of Post-Fusion.

    Defined for strategies that read each passage alone, as `DistractingEffect` is. Undefined
    without passages, for which the code returns 0.

    Args:
        weight: Weight of an irrelevant passage that draws an answer (1/3 as published).
    """

    revision: ClassVar[int] = 2
    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction", "placed"})

    weight: Annotated[float, Ge(0)] = 1 / 3

    def score(self, sample: Sample) -> float | None:
        """Return the utility of the passages of a question."""
        answered_positions = _read_answered(sample)
        if answered_positions is None or not sample.placed or not _has_labels(sample):
            return None
        relevant = _find_relevant(sample)
        utility = len(answered_positions & relevant) - self.weight * len(
            answered_positions - relevant
        )
        return 1 / (1 + math.exp(-utility / len(sample.placed)))


def _read_answered(sample: Sample) -> set[int] | None:
    """Return the positions of passages that drew an answer, or None if they were not read alone."""
    entry = next((entry for entry in sample.prediction.trace if entry.startswith(ANSWERED)), None)
    return (
        None
        if entry is None
        else {int(word) for word in entry.removeprefix(ANSWERED).split() if word != "none"}
    )


def _has_labels(sample: Sample) -> bool:
    """Return whether accepted answers or gold passages tell which passages are relevant."""
    return bool(sample.question.answers or sample.question.gold_passage_ids)


def _find_relevant(sample: Sample) -> set[int]:
    """Return the positions of passages that are gold or have a true answer in text or title."""
    answers = sample.question.answers
    return {
        position
        for position, context in enumerate(sample.placed, start=1)
        if not context.substitute
        and (context.is_gold or context.has_answer or has_answer(context.passage.title, answers))
    }
