"""Breakdowns divide questions into groups for reporting (conf/breakdown/<name>.yaml)."""

import json
import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.metrics.base import Input, Sample
from winnow.metrics.citation import mark_relevant


@dataclass(frozen=True)
class Breakdown(ABC):
    """Base class of breakdowns. A breakdown assigns every question to one group.

    Attributes:
        name: Identifier of the breakdown.
        title: Property by which the questions are grouped, as named in the title of the table.
    """

    inputs: ClassVar[frozenset[Input]] = frozenset()
    """Inputs that the breakdown needs besides the question and the prediction."""

    name: str
    title: str

    @abstractmethod
    def assign_groups(self, samples: Sequence[Sample]) -> list[str]:
        """Return the group of each sample."""


@dataclass(frozen=True)
class SampleBreakdown(Breakdown):
    """Base class of breakdowns in which the group of a question depends on the question alone."""

    def assign_groups(self, samples: Sequence[Sample]) -> list[str]:
        """Return the group of each sample."""
        return [self.find_group(sample) for sample in samples]

    @abstractmethod
    def find_group(self, sample: Sample) -> str:
        """Return the group of a sample."""


@dataclass(frozen=True)
class MetaField(Breakdown):
    """Group questions by a metadata field of their data set, such as "list" (trivia) or "prop"
    (PopQA).

    Attributes:
        field: Name of the metadata field.
    """

    revision: ClassVar[int] = 1

    field: str = ""

    def assign_groups(self, samples: Sequence[Sample]) -> list[str]:
        """Return the field's value for each sample, or "none" if the question lacks the field.

        Raises:
            ConfigError: If no question has the field.
        """
        metadata = [json.loads(sample.question.meta) for sample in samples]
        if not any(self.field in fields for fields in metadata):
            field_names = sorted({name for fields in metadata for name in fields})
            available = ", ".join(field_names) or "none"
            raise ConfigError(
                f"breakdown.field={self.field!r} is not in the metadata of the questions. "
                f"Available fields: {available}. Set breakdown.field to one of them."
            )
        return [str(fields.get(self.field, "none")) for fields in metadata]


@dataclass(frozen=True)
class GoldRank(SampleBreakdown):
    """Group questions by the rank at which the retriever returned the best gold passage.

    The groups are rank ranges (by default 1, 2-5, 6-20 and 21-100), "over 100", "not retrieved" and
    "no gold passage".

    Attributes:
        upper_bounds: Last rank of each range, in ascending order.
    """

    revision: ClassVar[int] = 1
    inputs: ClassVar[frozenset[Input]] = frozenset({"ranking"})
    upper_bounds: Sequence[int] = (1, 5, 20, 100)

    def __post_init__(self) -> None:
        bounds = list(self.upper_bounds)
        if (
            not bounds
            or bounds[0] < 1
            or any(first >= second for first, second in pairwise(bounds))
        ):
            raise ConfigError(
                "breakdown.upper_bounds must be ranks from 1 in ascending order; received "
                f"{bounds}."
            )

    def find_group(self, sample: Sample) -> str:
        """Return the group of a sample, such as "2-5"."""
        gold_ranks = [context.rank for context in sample.ranking if context.is_gold]
        if not gold_ranks:
            return "no gold passage"
        best_rank = min(filter(None, gold_ranks), default=0)
        if not best_rank:  # the rank of passages that were not retrieved is 0
            return "not retrieved"
        index = bisect_left(self.upper_bounds, best_rank)
        if index == len(self.upper_bounds):
            return f"over {self.upper_bounds[-1]}"
        first_rank = self.upper_bounds[index - 1] + 1 if index else 1
        last_rank = self.upper_bounds[index]
        return str(last_rank) if first_rank == last_rank else f"{first_rank}-{last_rank}"


@dataclass(frozen=True)
class Sufficiency(SampleBreakdown):
    """Group questions by whether a passage that a prompt has *shown* contains an accepted answer.

    The groups are "answer shown", "answer not shown", "no passages", "no accepted answer" and,
    where it is not known what was shown, "not recorded".
    """

    revision: ClassVar[int] = 3
    inputs: ClassVar[frozenset[Input]] = frozenset({"shown"})

    def find_group(self, sample: Sample) -> str:
        """Return the group of a sample."""
        if sample.shown is None:
            return "not recorded"
        if not sample.shown.contexts:
            return "no passages"
        if not sample.question.answers:
            return "no accepted answer"
        return (
            "answer shown"
            if any(context.has_answer for context in sample.shown.contexts)
            else "answer not shown"
        )


@dataclass(frozen=True)
class RelevantPosition(SampleBreakdown):
    """Group questions by the position at which the only relevant passage was *placed*, such as "2
    of 9".

    Relevant are the annotated gold passages or, for a question without any, the passages with an
    answer. Questions with several or none are groups of their own.
    """

    revision: ClassVar[int] = 1
    inputs: ClassVar[frozenset[Input]] = frozenset({"placed"})

    def find_group(self, sample: Sample) -> str:
        """Return the group of a sample."""
        relevance = mark_relevant(sample.question, sample.placed)
        positions = [
            position for position, is_relevant in enumerate(relevance, start=1) if is_relevant
        ]
        if len(positions) == 1:
            return f"{positions[0]} of {len(relevance)}"
        return "several" if positions else "none"


@dataclass(frozen=True)
class RetrievalScore(Breakdown):
    """Group questions by their best retriever score into bins of equal size.

    Questions with the same score are in the same bin. Questions without a retrieved passage form a
    separate group.

    Attributes:
        num_bins: Number of bins.
    """

    revision: ClassVar[int] = 1
    inputs: ClassVar[frozenset[Input]] = frozenset({"ranking"})
    num_bins: Annotated[int, Ge(1)] = 4

    def assign_groups(self, samples: Sequence[Sample]) -> list[str]:
        """Return the group of each sample, such as "2 of 4", counted from the lowest scores."""
        scores = np.array(
            [
                max(
                    (context.get_retriever_score() for context in sample.ranking if context.rank),
                    default=-np.inf,
                )
                for sample in samples
            ]
        )
        has_score = np.isfinite(scores)
        quantiles = np.linspace(0, 1, self.num_bins + 1)[1:-1]
        edges = np.quantile(scores[has_score], quantiles) if has_score.any() else np.zeros(0)
        bin_labels = [
            f"{int(index) + 1} of {self.num_bins}"
            for index in np.searchsorted(edges, scores, side="left")
        ]
        return [
            label if is_retrieved else "nothing retrieved"
            for label, is_retrieved in zip(bin_labels, has_score, strict=True)
        ]


_NUMBER = re.compile(r"^[\d.,\s%$€£-]*\d[\d.,\s%$€£-]*$")
_YEAR = re.compile(r"^(1\d|20)\d\d$")
_MONTH = re.compile(
    r"\b(?:January|February|March|April|May|June|July|August|September|October|November|December|"
    r"Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b"
)
_PARTICLES = frozenset({"of", "the", "and", "de", "van", "von"})


@dataclass(frozen=True)
class TraceEntry(SampleBreakdown):
    """Group questions by what the strategy recorded in its trace, such as the action of corrective
    retrieval.

    Attributes:
        label: Label before the colon of the entry, such as "action" for "action: correct".
    """

    revision: ClassVar[int] = 1

    label: str = "action"

    def find_group(self, sample: Sample) -> str:
        """Return the text behind the label in the first entry that has it, or "none"."""
        prefix = f"{self.label}: "
        entries = (entry for entry in sample.prediction.trace if entry.startswith(prefix))
        return next(entries, f"{prefix}none").removeprefix(prefix)


@dataclass(frozen=True)
class AnswerType(SampleBreakdown):
    """Group questions by the form of their first accepted answer; see `classify_answer`."""

    revision: ClassVar[int] = 2

    def find_group(self, sample: Sample) -> str:
        """Return the form of the first accepted answer, or "none"."""
        answers = sample.question.answers
        return classify_answer(answers[0]) if answers else "none"


def classify_answer(answer: str) -> str:
    """Return "yes/no", "year" (1000 to 2099), "number", "date" (with a month and a number), "name"
    (capitalized) or else "text".
    """
    text = answer.strip()
    if text.lower() in ("yes", "no"):
        return "yes/no"
    if _YEAR.match(text):
        return "year"
    if _NUMBER.match(text):
        return "number"
    if _MONTH.search(text) and any(map(str.isdigit, text)):
        return "date"
    words = [word for word in text.split() if word[0].isalpha() and word.lower() not in _PARTICLES]
    return "name" if words and all(word[0].isupper() for word in words) else "text"
