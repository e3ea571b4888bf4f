"""Where answers come from: a gold passage in the prompt, another passage, or the reader itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from winnow.metrics.answer import exact_match
from winnow.metrics.base import Input, MeanMetric, Sample
from winnow.records import Context
from winnow.text.containment import has_answers
from winnow.text.normalization import normalize

Source = Literal["gold", "other", "none"]
Outcome = Literal["any", "right", "wrong"]


@dataclass(frozen=True)
class AnswerSource(MeanMetric):
    """Share of answers whose text is in a certain kind of passage that a prompt showed, by the
    rules of `has_answer`.

    The kinds are a gold passage ("gold"), no gold passage but another one ("other"), and none
    ("none"). For each outcome, the shares of the three kinds add up to the share of the outcome. A
    wrong answer from another passage is one that a passage misled the reader to; a right one from
    none is the reader's own. The text of an answer may occur in a passage by chance, so that the
    metric is for short answers that are neither yes, no nor a letter.

    The metric reads what was *shown*: the passages of all prompts of the question, also parts of
    passages and those that the strategy searched for. It is undefined for "unknown", for answers
    without a letter or digit, without passages, and where the steps of a cell were not recorded.

    Args:
        source: Kind of passage.
        outcome: Whether only "right" or "wrong" answers count, by exact match; "any" counts both.
    """

    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction", "shown"})

    source: Source = "gold"
    outcome: Outcome = "any"

    def score(self, sample: Sample) -> float | None:
        """Return 1.0 if the answer has the source and the outcome, else 0.0."""
        answer = sample.prediction.answer
        if sample.shown is None or not sample.shown.contexts:
            return None
        if sample.prediction.unknown or not any(map(str.isalnum, normalize(answer))):
            return None
        if self.outcome != "any" and not sample.question.answers:
            return None
        if self.outcome != "any":
            is_right = exact_match(answer, sample.question.answers) == 1.0
            if is_right != (self.outcome == "right"):
                return 0.0
        return float(_find_source(answer, sample.shown.contexts) == self.source)


def _find_source(answer: str, contexts: Sequence[Context]) -> Source:
    """Return the best kind of passage that contains the answer."""
    texts = [f"{context.passage.title}\n{context.passage.text}" for context in contexts]
    contains_answer = has_answers(texts, [answer])
    kinds = {
        context.is_gold
        for context, contains in zip(contexts, contains_answer, strict=True)
        if contains
    }
    return "gold" if True in kinds else "other" if kinds else "none"
