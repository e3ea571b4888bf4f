"""Accuracy on questions with fixed answers: multiple choice (ARC) and true or false (PubHealth).

Each metric has two dialects. "crag" is the rule of CRAG's code, which looks for the raw label
anywhere in the reply: "A" is in "All", and "true" in "untrue". "fixed" reads the reply as a person
would (`winnow.text.claims` and `choices`); a reply that gives no single answer is wrong.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from winnow.metrics.base import MeanMetric, Sample
from winnow.metrics.metadata import build_error, read_field
from winnow.text.choices import parse_choice
from winnow.text.claims import parse_claim

ClassificationDialect = Literal["fixed", "crag"]
_LEAST_WORDS = 3
"""Number of words from which a claim in a reply is recognized as a repeated one."""


@dataclass(frozen=True)
class _Classification(MeanMetric):
    """Base class of the metrics of this module.

    Args:
        dialect: "fixed", or "crag" for the rule of CRAG's code.
    """

    dialect: ClassificationDialect = "fixed"

    @property
    def heading(self) -> str:
        """Return the title, followed by the dialect if it is CRAG's."""
        return self.title if self.dialect == "fixed" else f"{self.title} ({self.dialect})"


@dataclass(frozen=True)
class ChoiceAccuracy(_Classification):
    """Whether the reply names the right choice. The metric is undefined for questions without
    choices.

    The dialect "crag" looks for the key of the file, which is a number if the file numbers its
    choices, although the prompt shows letters.
    """

    revision: ClassVar[int] = 5

    def score(self, sample: Sample) -> float | None:
        """Return 1.0 for the right choice, else 0.0, or None if the question has no choices."""
        choices = read_field(sample.question, "choices")
        if choices is None:
            return None
        if not isinstance(choices, dict) or not all(
            isinstance(text, str) for text in choices.values()
        ):
            raise build_error(sample.question, "choices", choices, "an object of texts by letter")
        reply = sample.prediction.reply or sample.prediction.answer
        if self.dialect == "crag":
            return float(self._read_key(sample, "file_key") in reply)
        return float(parse_choice(reply, choices) == self._read_key(sample, "key"))

    def _read_key(self, sample: Sample, name: str) -> str:
        """Return the key of the right choice."""
        key = read_field(sample.question, name)
        if not isinstance(key, str):
            raise build_error(sample.question, name, key, "the key of the right choice")
        return key


@dataclass(frozen=True)
class ClaimAccuracy(_Classification):
    """Whether the reply says of a true claim that it is true, and of a false one that it is false.

    The metric is undefined for questions whose accepted answer is neither "true" nor "false".
    """

    revision: ClassVar[int] = 4

    def score(self, sample: Sample) -> float | None:
        """Return 1.0 if the reply is right, 0.0 if not, or None if the question is not a claim."""
        answer = sample.question.answers[0] if sample.question.answers else ""
        if answer not in ("true", "false"):
            return None
        reply = sample.prediction.reply or sample.prediction.answer
        if self.dialect == "crag":
            return float(answer in reply)
        return float(parse_claim(_shorten(reply, sample.question.text)) == (answer == "true"))


def _shorten(reply: str, claim: str) -> str:
    """Replace a claim that a reply repeats, whose words are no judgment, by "this"."""
    words = claim.strip().rstrip(".").strip('"').split()
    if len(words) < _LEAST_WORDS:
        return reply
    return re.sub(r"\s+".join(map(re.escape, words)), " this ", reply, flags=re.IGNORECASE)
