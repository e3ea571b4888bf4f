"""Accuracy by a language model: whether the answer means the same as an accepted one."""

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.errors import ConfigError
from winnow.metrics.base import JudgedMetric, Sample
from winnow.records import Decoding, Generate, Message, Plan


@dataclass(frozen=True)
class JudgedAccuracy(JudgedMetric):
    """Requests "yes" or "no" from the judge; a reply that begins with neither leaves the question out.

    Args:
        template: holds {question}, {answers} and {answer}.
        max_new_tokens: of the judge's reply.

    """

    template: str = ""
    max_new_tokens: int = 4

    def __post_init__(self) -> None:
        """Refuse a template that lacks a field."""
        for name in ("question", "answers", "answer"):
            if "{" + name + "}" not in self.template:
                raise ConfigError(f"metric.{self.name}.template must hold {{{name}}}; received {self.template!r}.")

    def plan(self, sample: Sample) -> Plan[float | None]:
        """Send one request."""
        answers = "; ".join(sample.question.answers)
        text = self.template.format(question=sample.question.text, answers=answers, answer=sample.prediction.answer)
        decoding = Decoding(max_new_tokens=self.max_new_tokens)
        (reply,) = yield [Generate((Message("user", text.strip()),), decoding, role="judge")]
        return _verdict(reply.text.split())


def _verdict(words: Sequence[str]) -> float | None:
    first = words[0].strip(".,:;!*\"'").lower() if words else ""
    return {"yes": 1.0, "no": 0.0}.get(first)
