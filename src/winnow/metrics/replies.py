"""Replies that a strategy may have misread: cut, empty, longer than an answer, or refusals that only a rule recognises."""

import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from winnow.metrics.answer import UNKNOWN, normalise
from winnow.metrics.base import MeanMetric, RatioMetric, Sample
from winnow.records import RoleUsage

_UP_TO_ANSWER = re.compile(r"^.*\banswer\b\W*", re.IGNORECASE)


@dataclass(frozen=True)
class _ShareOfReplies(RatioMetric):
    """Base class of metrics that divide a count of a role's replies by all calls of the role."""

    role: str = "reader"

    @abstractmethod
    def count(self, usage: RoleUsage) -> int:
        """Return the number of replies that count."""

    def counts(self, sample: Sample) -> tuple[float, float]:
        """Count the replies, and all calls of the role."""
        usage = next((part for part in sample.prediction.usage if part.role == self.role), None)
        return (float(self.count(usage)), float(usage.calls)) if usage else (0.0, 0.0)


@dataclass(frozen=True)
class CutReplies(_ShareOfReplies):
    """Share of a role's replies that ended at max_new_tokens, and so may lack the answer."""

    revision: ClassVar[int] = 1

    def count(self, usage: RoleUsage) -> int:
        """Return the number of replies that were cut."""
        return usage.cut


@dataclass(frozen=True)
class EmptyReplies(_ShareOfReplies):
    """Share of a role's replies without any text, such as those of a content filter; each counts as "unknown"."""

    revision: ClassVar[int] = 1

    def count(self, usage: RoleUsage) -> int:
        """Return the number of replies without text."""
        return usage.empty


@dataclass(frozen=True)
class LongAnswers(RatioMetric):
    """Share of the answers, candidates included, that have more words than an answer should.

    Many long answers are a sign of explanations, or of refusals that no rule recognises, which vote like answers.
    """

    revision: ClassVar[int] = 1

    words: int = 10

    def counts(self, sample: Sample) -> tuple[float, float]:
        """Count the long answers and all answers other than "unknown"."""
        prediction = sample.prediction
        answers = prediction.candidates or (() if prediction.unknown else (prediction.answer,))
        return float(sum(len(answer.split()) > self.words for answer in answers)), float(len(answers))


@dataclass(frozen=True)
class Refusals(MeanMetric):
    """Share of questions whose final reply is a refusal in other words than "unknown", as the rules recognise it."""

    revision: ClassVar[int] = 1

    def score(self, sample: Sample) -> float:
        """Return 1.0 if the final answer is unknown and the reply says it in other words."""
        prediction = sample.prediction
        lines = {normalise(_UP_TO_ANSWER.sub("", line)) for line in prediction.reply.splitlines()} - {""}
        return float(prediction.unknown and bool(lines) and UNKNOWN not in lines)
