"""Metrics of replies that may be misread: cut or empty replies, long answers and refusals."""

import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.metrics.base import MeanMetric, RatioMetric, Sample
from winnow.predictions import RoleUsage
from winnow.text.normalization import UNKNOWN, normalize

_ANSWER_PREFIX = re.compile(r"^.*\banswer\b\W*", re.IGNORECASE)


@dataclass(frozen=True)
class _ShareOfReplies(RatioMetric):
    """Base class of metrics that divide the number of certain replies of a role by the number of
    all its replies; likelihoods and scores are none.

    Args:
        role: Role of the model whose replies are counted, such as "reader" or "judge".
    """

    role: str = "reader"

    @abstractmethod
    def count_replies(self, usage: RoleUsage) -> int:
        """Return the number of replies that have the property."""

    def compute_terms(self, sample: Sample) -> tuple[float, float]:
        """Return the numbers of replies with the property and of all replies of the role."""
        for usage in sample.prediction.usage:
            if usage.role == self.role:
                return float(self.count_replies(usage)), float(usage.replies)
        return 0.0, 0.0


@dataclass(frozen=True)
class CutReplies(_ShareOfReplies):
    """Share of a role's replies that ended at max_new_tokens, so that the answer may be missing."""

    revision: ClassVar[int] = 2

    def count_replies(self, usage: RoleUsage) -> int:
        """Return the number of replies that were cut."""
        return usage.cut


@dataclass(frozen=True)
class EmptyReplies(_ShareOfReplies):
    """Share of a role's replies without any text, for instance because of a content filter. They
    count as "unknown".
    """

    revision: ClassVar[int] = 2

    def count_replies(self, usage: RoleUsage) -> int:
        """Return the number of replies without text."""
        return usage.empty


@dataclass(frozen=True)
class LongAnswers(RatioMetric):
    """Share of answers, including candidates, that have more than `words` words.

    Many long answers indicate explanations, or refusals that no rule recognizes and that therefore
    count as answers in a vote.

    Args:
        words: Maximum number of words of an answer that is not long.
    """

    revision: ClassVar[int] = 1

    words: Annotated[int, Ge(0)] = 10

    def compute_terms(self, sample: Sample) -> tuple[float, float]:
        """Return the number of long answers and the number of all answers other than "unknown"."""
        prediction = sample.prediction
        answers = prediction.candidates or (() if prediction.unknown else (prediction.answer,))
        num_long = sum(len(answer.split()) > self.words for answer in answers)
        return float(num_long), float(len(answers))


@dataclass(frozen=True)
class Refusals(MeanMetric):
    """Share of questions whose final reply is recognized as "unknown" although it expresses this in
    other words.
    """

    revision: ClassVar[int] = 1

    def score(self, sample: Sample) -> float:
        """Return 1.0 if the answer is unknown but no line of the reply is "unknown", else 0.0."""
        prediction = sample.prediction
        answers = [_ANSWER_PREFIX.sub("", line) for line in prediction.reply.splitlines()]
        lines = {normalize(answer) for answer in answers} - {""}
        return float(prediction.unknown and bool(lines) and UNKNOWN not in lines)
