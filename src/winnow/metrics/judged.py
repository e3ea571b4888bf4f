"""Accuracy according to a judge, a language model that decides whether an answer means the same as an accepted answer."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.errors import check_fields
from winnow.metrics.base import JudgedMetric, Sample
from winnow.records import Decoding, Generate, Message, Plan
from winnow.text.final import extract_final_text


@dataclass(frozen=True)
class JudgedAccuracy(JudgedMetric):
    """Share of answers for which the judge replies "yes" instead of "no".

    The metric is undefined for a question if the judge's reply starts with neither word.

    Args:
        template: Template of the judge's prompt, with the fields {question}, {answers} and {answer}.
        max_new_tokens: Maximum number of tokens in the judge's reply.

    """

    revision: ClassVar[int] = 3

    template: str = ""
    max_new_tokens: Annotated[int, Ge(1)] = 4

    def __post_init__(self) -> None:
        """Raise ConfigError if the template lacks a field or has another one."""
        check_fields(f"metric.{self.name}.template", self.template, ("question", "answers", "answer"))

    def plan(self, sample: Sample) -> Plan[float | None]:
        """Yield one request to the judge, and return 1.0 for "yes", 0.0 for "no", or None for any other reply."""
        answers = "; ".join(sample.question.answers)
        prompt = self.template.format(question=sample.question.text, answers=answers, answer=sample.prediction.answer)
        decoding = Decoding(max_new_tokens=self.max_new_tokens)
        (reply,) = yield [Generate((Message("user", prompt.strip()),), decoding, role="judge")]
        return _parse_verdict(reply.text)


def _parse_verdict(reply: str) -> float | None:
    """Return the verdict that the first word of a reply expresses, or None if it is neither "yes" nor "no"."""
    words = extract_final_text(reply).split()
    first_word = words[0].strip(".,:;!*\"'").lower() if words else ""
    return {"yes": 1.0, "no": 0.0}.get(first_word)
