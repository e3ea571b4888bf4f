"""RAGAS' answer relevancy (Es et al. 2024): whether the answer answers the question asked."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from winnow.errors import ConfigError
from winnow.identity.values import Template
from winnow.metrics.base import Input, JudgedMetric, Sample
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message, Plan
from winnow.text.final import extract_final_text

TEMPLATE = """Read an answer, and write the question to which it is the answer. Then say whether \
the answer is noncommittal: it avoids the question, is vague, or says that it is not known.

Answer: The Seine flows through Paris.
Question: Which river flows through Paris?
Noncommittal: no

Answer: I do not know who wrote it.
Question: Who wrote it?
Noncommittal: yes

Answer: {answer}
"""
"""Prompt for a question, with the field {answer}. As published, the judge sees nothing else."""

_QUESTION = re.compile(
    r"^\W*question\b[^\n:]{0,8}:[^\w\n]*(?:\n\W*(?!noncommittal)(?=\w))?(.*?)[\s*]*$",
    re.IGNORECASE | re.MULTILINE,
)
_NONCOMMITTAL = re.compile(
    r"^\W*noncommittal[^\w\n]*:[^\w\n]*(yes|no)\b", re.IGNORECASE | re.MULTILINE
)


class QueryEncoder(Protocol):
    """An encoder of questions, such as a `SentenceEncoder`."""

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode questions to vectors of shape (texts, dimensions)."""
        ...


@dataclass(frozen=True)
class AnswerRelevancy(JudgedMetric):
    """Mean cosine similarity of the question and of questions that a judge writes for the answer; 0
    if it is noncommittal.

    An answer is noncommittal if all replies say so, as in the published code since version 0.3.6
    (before: if one does). The words of the prompt are ours. A cosine may be below 0.

    In the dialect "strict", a reply without a question or without a verdict leaves the sample out,
    and an answer "unknown" has 0 without a call. In the dialect "ragas", such replies are left out,
    and a sample without any other has 0.

    Args:
        encoder: Encoder of the questions; published are OpenAI's embeddings.
        questions: Number of questions that the judge writes (RAGAS: 3).
        temperature: Temperature of the judge, by which the questions differ (RAGAS: 0.3).
        template: Template of the prompt, with the field {answer}.
        dialect: Rules for what is missing.
        max_new_tokens: Maximum number of tokens of a reply.
    """

    inputs: ClassVar[frozenset[Input]] = frozenset({"prediction"})
    revision: ClassVar[int] = 3

    encoder: QueryEncoder | None = None
    questions: Annotated[int, Ge(1)] = 3
    temperature: Annotated[float, Ge(0)] = 0.3
    template: Annotated[str, Template("answer")] = TEMPLATE
    dialect: Literal["strict", "ragas"] = "strict"
    max_new_tokens: Annotated[int, Ge(1)] = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder is None:
            raise ConfigError(
                f"metric.{self.name} needs an encoder of questions. Choose encoder=minilm or "
                "another one."
            )

    def plan(self, sample: Sample) -> Plan[float | None]:
        """Request the questions, and return the mean similarity."""
        if self.dialect == "strict" and sample.prediction.unknown:
            return 0.0
        prompt = (Message("user", self.template.format(answer=sample.whole_answer)),)
        decoding = Decoding(max_new_tokens=self.max_new_tokens, temperature=self.temperature)
        number = self.questions if self.temperature else 1  # greedy replies are all equal
        replies = yield [
            Generate(prompt, decoding, role="judge", sample=index) for index in range(number)
        ]
        pairs = [_read(reply) for reply in replies]
        complete = [(question, flag) for question, flag in pairs if question and flag is not None]
        if self.dialect == "strict" and len(complete) < len(pairs):
            return None
        if not complete or all(flag for _, flag in complete):
            return 0.0
        assert self.encoder is not None
        vector, *question_vectors = self.encoder.encode_queries(
            [sample.question.text, *(question for question, _ in complete)]
        )
        return float(
            np.mean(
                [
                    vector @ one / (np.linalg.norm(vector) * np.linalg.norm(one))
                    for one in question_vectors
                ]
            )
        )


def _read(reply: Generation) -> tuple[str, bool | None]:
    """Return a reply's question, or "", and whether it calls the answer noncommittal."""
    text = extract_final_text(reply.text)
    question, verdict = _QUESTION.search(text), _NONCOMMITTAL.search(text)
    return question[1] if question else "", verdict[1].lower() == "yes" if verdict else None
