"""What a reader follows if a passage contradicts its memory: the passage, its memory or neither."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from winnow.metrics.answer import accuracy
from winnow.metrics.base import Input, MeanMetric, RatioMetric, Sample

Source = Literal["passage", "memory", "neither"]


@dataclass(frozen=True)
class Follows(MeanMetric):
    """Share of answers that follow a counterfactual passage, the reader's memory, or neither.

    An answer follows the *passage* if it contains the false answer that `placement=counterfactual`
    put into the gold passage, and the *memory* if it contains an accepted answer, which none of the
    passages does. One that contains both or none of them, such as "unknown", follows *neither*; the
    three shares add up to 1. Undefined for questions whose passage was not changed. Answers are
    compared as `accuracy` does.

    Args:
        source: What is followed.
    """

    revision: ClassVar[int] = 1
    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction", "placed"})

    source: Source = "passage"

    def score(self, sample: Sample) -> float | None:
        """Return 1.0 if the answer follows the source, else 0.0."""
        followed = find_followed(sample)
        return None if followed is None else float(followed == self.source)


@dataclass(frozen=True)
class MemorizationRatio(RatioMetric):
    """Share of memory among the answers that follow memory or a counterfactual passage: p_o / (p_o
    + p_s).

    As in Longpre et al. (2021), where o is the original and s the substituted answer. They count
    the questions alone that the reader answers right without passages:
    `sweep.closed_book_keeps=known` asks these.
    """

    revision: ClassVar[int] = 1
    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction", "placed"})

    def compute_terms(self, sample: Sample) -> tuple[float, float]:
        """Return whether an answer follows memory, and whether it follows memory or the passage."""
        followed = find_followed(sample)
        return float(followed == "memory"), float(followed in ("memory", "passage"))


def find_followed(sample: Sample) -> Source | None:
    """Return what an answer follows, or None if no passage was changed."""
    substitute = next((context.substitute for context in sample.placed if context.substitute), "")
    if not substitute:
        return None
    answer = "" if sample.prediction.unknown else sample.prediction.answer
    follows_passage, follows_memory = (
        accuracy(answer, [substitute]) == 1.0,
        accuracy(answer, sample.question.answers) == 1.0,
    )
    if follows_passage == follows_memory:
        return "neither"
    return "passage" if follows_passage else "memory"
