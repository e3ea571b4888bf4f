"""Judged accuracy: a language model decides whether an answer means the same as an accepted one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt

from winnow.identity.values import Template
from winnow.metrics.base import JudgedMetric, Sample
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message, Plan
from winnow.text.verdicts import read_yes_or_no


@dataclass(frozen=True)
class JudgedAccuracy(JudgedMetric):
    """Share of answers for which the judge replies "yes" instead of "no".

    A reply that starts with neither word, or with both, is not a verdict. Of several votes, which
    are drawn at a temperature, the majority of the verdicts counts. The metric is undefined for a
    question without a verdict, or with as many for as against.

    Args:
        template: Template of the judge's prompt, with the fields {question}, {answers} and
            {answer}.
        max_new_tokens: Maximum number of tokens in the judge's reply.
        votes: Number of replies.
        temperature: Temperature at which several votes are drawn; a single one is greedy.
        of: "verdict", or "consistency" for the share of the verdicts that agree with the majority.
    """

    revision: ClassVar[int] = 5

    template: Annotated[str, Template("question", "answers", "answer")] = ""
    max_new_tokens: Annotated[int, Ge(1)] = 4
    votes: Annotated[int, Ge(1)] = 1
    temperature: Annotated[float, Gt(0)] = 1.0
    of: Literal["verdict", "consistency"] = "verdict"

    def plan(self, sample: Sample) -> Plan[float | None]:
        """Yield the requests, and return 1.0 for "yes", 0.0 for "no", or None without a verdict."""
        if not sample.question.answers:
            return None
        answers = "; ".join(sample.question.answers)
        prompt = self.template.format(
            question=sample.question.text, answers=answers, answer=sample.prediction.answer
        )
        temperature = self.temperature if self.votes > 1 else 0.0
        decoding = Decoding(
            max_new_tokens=self.max_new_tokens, temperature=temperature, samples=self.votes
        )
        replies: Sequence[Generation] = yield [
            Generate((Message("user", prompt.strip()),), decoding, number, role="judge")
            for number in range(self.votes)
        ]
        verdicts = [
            verdict for reply in replies if (verdict := read_yes_or_no(reply.text)) is not None
        ]
        share = sum(verdicts) / len(verdicts) if verdicts else 0.5
        if self.of == "consistency":
            return max(share, 1 - share) if verdicts else None
        return None if share == 0.5 else float(share > 0.5)
