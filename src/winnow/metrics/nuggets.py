"""Coverage of a good answer's nuggets (TREC's AutoNuggetizer, Pradeep et al. 2024 and 2025)."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from winnow.errors import InputError
from winnow.identity.values import Template
from winnow.metrics.base import JudgedMetric, Sample
from winnow.metrics.claim_checks import format_numbered, read_numbered_words
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message, Plan

Measure = Literal["all", "all_strict", "vital", "vital_strict", "weighted", "weighted_strict"]

ASSIGN = """Decide for each nugget, a piece of information that a good answer contains, how far \
the answer states it.

support: the answer states all of the nugget.
partial_support: the answer states a part of it.
not_support: the answer does not state it.

Question: {question}
Answer: {answer}
Nuggets:
{nuggets}

Write one line for each nugget, in their order, with its number and one of the three words."""
"""Prompt for the support of nuggets, with the fields {question}, {answer} and {nuggets}."""

_LINE = re.compile(r"^\W*(?:(\d+)\W+)?(partial_support|not_support|support)\W*$", re.IGNORECASE)
_CREDITS: Mapping[str, float] = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
_WEIGHT_OF_OKAY = 0.5
_MOST = 10
"""Number of nuggets of a request, as published."""
_TOKENS_OF_A_LABEL = 12


@dataclass(frozen=True)
class Nuggets(JudgedMetric):
    """Share of a question's nuggets that the answer supports, according to a judge.

    Nuggets are in the metadata of the question, as a list `nuggets` of objects with `text` and
    `importance`, "vital" or "okay". A nugget that is supported in part counts a half, and not at
    all in the strict measures. "all" is the share of all nuggets, "vital" the share of the vital
    ones (the published main measure is "vital_strict"), and "weighted" has half the weight for okay
    ones. Formulas follow the published code (castorini/nuggetizer; "weighted":
    vectara/open-rag-eval, without its floor of 1 for the number of nuggets); the prompt is ours.

    An answer "unknown" supports nothing, and is not judged. Undefined without nuggets or, in the
    dialect "strict", without a label for each of them or without a vital one; in the dialect
    "nuggetizer", a label that is missing counts 0, and so does an answer without vital nuggets.

    Args:
        of: The measure.
        dialect: Rules for what is missing.
        template: Template of the prompt, with the fields {question}, {answer} and {nuggets}.
    """

    revision: ClassVar[int] = 4

    of: Measure = "vital_strict"
    dialect: Literal["strict", "nuggetizer"] = "strict"
    template: Annotated[str, Template("question", "answer", "nuggets")] = ASSIGN

    def plan(self, sample: Sample) -> Plan[float | None]:
        """Request a label for each nugget, ten in a request."""
        nuggets = _read_nuggets(sample)
        if not nuggets:
            return None
        texts = [str(nugget["text"]) for nugget in nuggets]
        labels: list[str | None] = ["not_support"] * len(texts)
        if not sample.prediction.unknown:
            parts = [texts[start : start + _MOST] for start in range(0, len(texts), _MOST)]
            replies: Sequence[Generation] = yield [self._ask(sample, part) for part in parts]
            labels = []
            for reply, part in zip(replies, parts, strict=True):
                labels += read_numbered_words(reply, _LINE, len(part)) or [None] * len(part)
        if self.dialect == "strict" and None in labels:
            return None
        return self._compute([_read_importance(sample, nugget) for nugget in nuggets], labels)

    def _ask(self, sample: Sample, texts: Sequence[str]) -> Generate:
        answer = sample.whole_answer
        prompt = self.template.format(
            question=sample.question.text, answer=answer, nuggets=format_numbered(texts)
        )
        decoding = Decoding(max_new_tokens=_TOKENS_OF_A_LABEL * len(texts))
        return Generate((Message("user", prompt),), decoding, role="judge")

    def _compute(self, importances: Sequence[str], labels: Sequence[str | None]) -> float | None:
        """Return the weighted mean credit or, without any weight, the dialect's None or 0."""
        kind, _, strict = self.of.partition("_")
        earned = [_CREDITS.get(label or "", 0.0) for label in labels]
        if strict:
            earned = [float(one == 1.0) for one in earned]
        weight_of_okay = {"all": 1.0, "vital": 0.0, "weighted": _WEIGHT_OF_OKAY}[kind]
        weights = [1.0 if importance == "vital" else weight_of_okay for importance in importances]
        if not any(weights):
            return None if self.dialect == "strict" else 0.0
        return sum(weight * one for weight, one in zip(weights, earned, strict=True)) / sum(weights)


def _read_nuggets(sample: Sample) -> Sequence[Mapping[str, Any]]:
    """Return the nuggets in the metadata of the question.

    Raises:
        InputError: If they have another form.
    """
    fields = json.loads(sample.question.meta)
    nuggets = (fields.get("nuggets") if isinstance(fields, dict) else None) or []
    for nugget in nuggets if isinstance(nuggets, list) else [nuggets]:
        text = nugget.get("text") if isinstance(nugget, dict) else None
        if not isinstance(nuggets, list) or not isinstance(text, str):
            raise InputError(
                f"Question {sample.question.question_id!r}: its nuggets are a list of objects with "
                f"text and importance; received {nugget!r}."
            )
    return nuggets


def _read_importance(sample: Sample, nugget: Mapping[str, Any]) -> str:
    """Return "vital" or "okay", which a nugget without an importance is."""
    importance = str(nugget.get("importance", "okay")).strip().lower()
    if importance not in ("vital", "okay"):
        raise InputError(
            f"Question {sample.question.question_id!r}: the importance of a nugget is vital or "
            f"okay; received {nugget['importance']!r}."
        )
    return importance
