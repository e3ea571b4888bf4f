"""Whether a judge finds the prompt's passages sufficient for an answer (Joren et al. 2025)."""

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.identity.values import Template
from winnow.metrics.base import Input, JudgedMetric, Sample
from winnow.records import Decoding
from winnow.requests import Generate, Message, Plan
from winnow.text.final import extract_final_text
from winnow.text.templates import fill_passage

_VERDICT = re.compile(
    r"\{\W*sufficient context\W*([01])(?:\.0)?\W*\}|^\W*sufficient "
    r"context(?:\W*\([^)\n]*\))?[^\w\n]*([01])[^\w\n.]*\.?$",
    re.IGNORECASE | re.MULTILINE,
)
"""A verdict in the published form, or as a line of its own."""


@dataclass(frozen=True)
class SufficientContext(JudgedMetric):
    """Share of questions whose passages suffice for a definite answer, whether it is the accepted
    one or not.

    The judge explains itself, and ends with `{"Sufficient Context": 1}` or 0, the form that the
    authors publish; the words of the prompt are ours. The last such verdict counts; a reply without
    one, or that was cut, leaves the question out. The judge sees neither the answer nor the
    accepted ones.

    Args:
        template: Template of the prompt, with the fields {question} and {passages}.
        passage: Template of a passage, with the fields {title} and {text}.
        max_new_tokens: Maximum number of tokens of a reply.
    """

    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction", "shown"})
    revision: ClassVar[int] = 3

    template: Annotated[str, Template("question", "passages")] = ""
    passage: Annotated[str, Template("text", optional=("title",))] = "{title}\n{text}"
    max_new_tokens: Annotated[int, Ge(1)] = 512

    def plan(self, sample: Sample) -> Plan[float | None]:
        """Yield one request, and return 1.0 or 0.0, or None without a verdict or shown passages."""
        if sample.shown is None or not sample.shown.contexts:
            return None
        shown_passages = [context.passage for context in sample.shown.contexts]
        passages = "\n\n".join(
            fill_passage(self.passage, passage.title, passage.text).strip()
            for passage in shown_passages
        )
        prompt = self.template.format(question=sample.question.text, passages=passages).strip()
        decoding = Decoding(max_new_tokens=self.max_new_tokens)
        (reply,) = yield [Generate((Message("user", prompt),), decoding, role="judge")]
        verdicts = (
            [] if reply.finish == "length" else _VERDICT.findall(extract_final_text(reply.text))
        )
        return float("".join(verdicts[-1])) if verdicts else None
