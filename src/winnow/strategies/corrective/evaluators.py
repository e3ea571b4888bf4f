"""CRAG's retrieval evaluators, which score passages from -1 (irrelevant) to 1 (relevant)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol

from annotated_types import Ge

from winnow.identity.values import Template, check_values
from winnow.records import Decoding, Passage, Question
from winnow.requests import Estimate, Failed, Generate, Message, Plan
from winnow.strategies.corrective.actions import Scale, compute_relevance_score
from winnow.text.final import extract_final_text

_VERDICT = re.compile(r"\b(yes|no)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The relevance scores of passages.

    Attributes:
        scores: Score of each passage from -1 to 1, in the order of the passages. It is -1 for a
            passage whose evaluation failed.
        failed: Number of passages whose evaluation failed: the estimator gave no number, or the
            judge no verdict.
    """

    scores: tuple[float, ...]
    failed: int = 0


class Evaluator(Protocol):
    """Evaluates how relevant passages, or parts of them, are to a question."""

    def evaluate(self, question: Question, passages: Sequence[Passage]) -> Plan[Evaluation]:
        """Request the evaluation of every passage."""
        ...


@dataclass(frozen=True, slots=True)
class EstimatedRelevance:
    """An evaluator that takes the scores of the configured relevance estimator.

    Args:
        scale: "tanh" scales log-odds to [-1, 1], by tanh(log-odds / 2). "none" takes scores as they
            are, those of a regression on -1 and 1, which may exceed these bounds.
    """

    revision: ClassVar[int] = 1

    scale: Scale = "tanh"

    def __post_init__(self) -> None:
        check_values("evaluator", self)

    def evaluate(self, question: Question, passages: Sequence[Passage]) -> Plan[Evaluation]:
        """Request an estimate of every passage."""
        results = yield [
            Estimate(question.text, passage.text, passage.title, may_fail=True)
            for passage in passages
        ]
        convert = compute_relevance_score if self.scale == "tanh" else float
        scores = [
            -1.0 if isinstance(result, Failed) else convert(result.value) for result in results
        ]
        return Evaluation(tuple(scores), sum(isinstance(result, Failed) for result in results))


@dataclass(frozen=True, slots=True)
class JudgedRelevance:
    """An evaluator that asks a "judge" model whether a passage helps answer a question (table 4).

    The first "yes" or "no" in the reply is the verdict: 1 or -1. A reply without one is a failed
    evaluation.

    Args:
        template: Template of the prompt, with the fields {question}, {title} and {text}.
        max_new_tokens: Maximum number of tokens in a reply.
        reasons: Whether the judge reasons before its verdict. The last "yes" or "no" is then the
            verdict, and a reply that was cut at `max_new_tokens` has none.
    """

    revision: ClassVar[int] = 4

    template: Annotated[str, Template("question", "text", optional=("title",))]
    max_new_tokens: Annotated[int, Ge(1)] = 4
    reasons: bool = False

    def __post_init__(self) -> None:
        check_values("evaluator", self)

    def evaluate(self, question: Question, passages: Sequence[Passage]) -> Plan[Evaluation]:
        """Request a verdict on every passage."""
        decoding = Decoding(max_new_tokens=self.max_new_tokens)
        prompts = [
            self.template.format(
                question=question.text, title=passage.title, text=passage.text
            ).strip()
            for passage in passages
        ]
        replies = yield [
            Generate((Message("user", prompt),), decoding, role="judge", may_fail=True)
            for prompt in prompts
        ]
        verdicts = [
            (
                None
                if isinstance(reply, Failed) or (self.reasons and reply.finish == "length")
                else parse_verdict(reply.text, last=self.reasons)
            )
            for reply in replies
        ]
        return Evaluation(
            tuple(-1.0 if verdict is None else verdict for verdict in verdicts),
            verdicts.count(None),
        )


def parse_verdict(reply: str, *, last: bool = False) -> float | None:
    """Return a reply's first or last verdict as 1 ("yes") or -1 ("no"), or None if it has none.

    The verdict follows the reasoning of a model that reasons before its reply.
    """
    verdicts = _VERDICT.findall(extract_final_text(reply))
    return None if not verdicts else 1.0 if verdicts[-1 if last else 0].lower() == "yes" else -1.0
