"""HyDE (Gao et al., 2023): passages nearest to the average of the question and made-up passages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from winnow.identity.values import Template, check_values
from winnow.records import Context, Decoding, Hit, Question
from winnow.requests import Generate, Message, Plan, Search
from winnow.retrievers.plans.results import list_hits
from winnow.text.final import extract_final_text


@dataclass(frozen=True, slots=True)
class Hyde:
    """A plan that makes up passages with an answer, and searches with the average of all vectors.

    The made-up passages are encoded as passages are, the question as questions are. One without
    text is left out. Their number and length, temperature and stop string are in the decoding; the
    published ones are in conf/retriever/hyde.yaml.

    Args:
        template: Prompt with {question}.
        decoding: Generation settings; `samples` is the number of made-up passages.
    """

    revision: ClassVar[int] = 1

    template: Annotated[str, Template("question")]
    decoding: Decoding

    def __post_init__(self) -> None:
        check_values("retriever.plan", self)

    def plan(self, question: Question, contexts: Sequence[Context], depth: int) -> Plan[list[Hit]]:  # noqa: ARG002 (the protocol)
        """Request the passages, and search with them and the question."""
        message = Message("user", self.template.format(question=question.text))
        numbers = range(self.decoding.samples)
        replies = yield [
            Generate((message,), self.decoding, number, role="rewriter") for number in numbers
        ]
        texts = [extract_final_text(reply.text).strip() for reply in replies]
        (pages,) = yield [Search(question.text, depth, tuple(filter(None, texts)), role="corpus")]
        return list_hits(pages)
