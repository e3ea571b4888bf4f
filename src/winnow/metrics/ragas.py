"""RAGAS (Es et al. 2024): judged faithfulness of answers, and precision and recall of passages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from winnow.identity.values import Template
from winnow.metrics.base import Sample
from winnow.metrics.claim_checks import (
    ClaimMetric,
    ask_for_claims,
    ask_for_verdicts,
    read_all_labels,
    read_claims,
    read_verdicts,
)
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message, Plan
from winnow.text.verdicts import read_yes_or_no

Measure = Literal["faithfulness", "context_recall", "context_precision"]

USEFUL = """Decide whether the passage is useful for arriving at the answer to the question.

Question: {question}
Passage: {passage}
Answer: {answer}

Reply with yes or no."""
"""Prompt for the verdict on a passage, with the fields {question}, {passage} and {answer}."""

_SMALL = 1e-10
"""Published addend to the number of useful passages, so that a perfect list is just below 1."""
_TOKENS_OF_A_WORD = 4


@dataclass(frozen=True)
class Ragas(ClaimMetric):
    """One of RAGAS' measures of an answer and its passages.

    "faithfulness" is the share of the reply's claims that the passages in the prompt, read as one
    text, entail; and "context_recall" that of the accepted answer's claims. "context_precision" is
    the average precision of the passages in prompt order, of which those are relevant that the
    judge calls useful for the accepted answer. Prompts are our own; the formulas follow the
    published code (versions 0.2 to 0.4).

    A measure without claims or passages is undefined. In the dialect "strict" it is undefined, too,
    if the judge did not give all verdicts, and so is the faithfulness of an answer "unknown". In
    the dialect "ragas", the share is of the verdicts that the judge gave, and a passage without a
    verdict is not useful.

    Args:
        of: The measure.
        dialect: Rules for what is missing.
        useful_template: Template of the prompt for a passage, with the fields {question}, {passage}
            and {answer}.
    """

    revision: ClassVar[int] = 4

    of: Measure = "faithfulness"
    dialect: Literal["strict", "ragas"] = "strict"
    useful_template: Annotated[str, Template("question", "passage", "answer")] = USEFUL

    def plan(self, sample: Sample) -> Plan[float | None]:
        """Request claims and verdicts on them, or a verdict on each passage."""
        question, prediction = sample.question, sample.prediction
        if sample.shown is None or not sample.shown.contexts:
            return None
        passages = [context.passage.titled_text for context in sample.shown.contexts]
        if self.of == "faithfulness":
            if self.dialect == "strict" and prediction.unknown:
                return None
            return (yield from self._check(question.text, sample.whole_answer, passages))
        if not question.answers:
            return None
        if self.of == "context_recall":
            return (yield from self._check(question.text, question.answers[0], passages))
        replies: Sequence[Generation] = yield [
            self._ask(
                self.useful_template.format(
                    question=question.text, passage=passage, answer=question.answers[0]
                )
            )
            for passage in passages
        ]
        verdicts = [read_yes_or_no(reply.text) for reply in replies]
        if self.dialect == "strict" and None in verdicts:
            return None
        return compute_average_precision(
            list(map(bool, verdicts)), 0.0 if self.dialect == "strict" else _SMALL
        )

    def _check(self, question: str, text: str, passages: Sequence[str]) -> Plan[float | None]:
        """Return the share of the claims of a text that the passages entail."""
        (extraction_reply,) = yield [
            ask_for_claims(self.extract_template, question, text, self.max_new_tokens)
        ]
        claims = read_claims(extraction_reply, is_strict=self.dialect == "strict")
        if not claims:
            return None
        replies = yield ask_for_verdicts(
            self.check_template, question, claims, ["\n".join(passages)], len(claims)
        )
        if self.dialect == "ragas":
            (reply,) = replies
            labels = read_all_labels(reply)
            return sum(labels) / len(labels) if labels else None
        verdicts = [
            row[0] for row in read_verdicts(replies, len(claims), 1, len(claims), is_padded=False)
        ]
        return None if None in verdicts else sum(map(bool, verdicts)) / len(verdicts)

    def _ask(self, prompt: str) -> Generate:
        return Generate(
            (Message("user", prompt),), Decoding(max_new_tokens=_TOKENS_OF_A_WORD), role="judge"
        )


def compute_average_precision(useful: Sequence[bool], small: float = 0.0) -> float:
    """Compute the average precision: the mean share of useful entries up to each useful entry.

    A list without a useful entry has 0.

    Args:
        useful: Whether each entry is useful, in order.
        small: Number that is added to the number of useful entries (published: 1e-10).
    """
    total, num_useful = 0.0, 0
    for place, is_useful in enumerate(useful, 1):
        if is_useful:
            num_useful += 1
            total += num_useful / place
    return total / (num_useful + small) if num_useful else 0.0
