"""Requests for the segments of a Self-RAG model's reply, and the decision to retrieve."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from winnow.identity.values import check_values
from winnow.records import Context, Decoding, Passage, Question
from winnow.requests import Generate, Message, Plan
from winnow.strategies.corrective.crag import CorrectiveRetrieval
from winnow.strategies.prompt import Prompt
from winnow.strategies.self_rag.reflection import (
    NO_RETRIEVAL,
    RETRIEVE,
    TOKENS,
    compute_retrieval_probability,
)

When = Literal["adaptive", "always", "never"]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """When a Self-RAG model is shown passages.

    Args:
        when: "always", "never", or "adaptive": if the model's probability of the token for
            retrieval is high enough.
        threshold: Probability of retrieval, against no retrieval, which must be exceeded
        (published:
            0.2).
    """

    revision: ClassVar[int] = 1

    when: When = "adaptive"
    threshold: Annotated[float, Ge(0), Le(1)] = 0.2

    def __post_init__(self) -> None:
        check_values("strategy.plan.retrieval", self)

    def decide(
        self, question: Question, prompt: Prompt, decoding: Decoding
    ) -> Plan[tuple[bool, str]]:
        """Return the decision to retrieve and its record, after generating one token if needed."""
        if self.when != "adaptive":
            return self.when == "always", f"retrieval: {self.when}"
        one_token = replace(decoding, max_new_tokens=1)
        (reply,) = yield [build_segment_request(prompt, question, one_token)]
        probability = compute_retrieval_probability(reply)
        return probability > self.threshold, f"retrieval: P = {probability:.3f}"


def choose_passages(
    question: Question,
    contexts: Sequence[Context],
    retrieval: Retrieval,
    correction: CorrectiveRetrieval | None,
    prompt: Prompt,
    decoding: Decoding,
) -> Plan[tuple[tuple[Passage, ...], tuple[str, ...]]]:
    """Request the decision to retrieve and, if there is one, the correction of what was retrieved.

    Returns:
        Passages that the reply may rest on, none without retrieval, and the trace.
    """
    retrieves, decision = yield from retrieval.decide(question, prompt, decoding)
    if not retrieves:
        return (), (decision,)
    passages = tuple(context.passage for context in contexts)
    if correction is None:
        return passages, (decision,)
    knowledge, trace = yield from correction.correct(question, passages)
    return knowledge, (decision, *trace)


def build_segment_request(
    prompt: Prompt,
    question: Question,
    decoding: Decoding,
    *,
    reply: str = "",
    passage: Passage | None = None,
) -> Generate:
    """Build the request for the next segment of a reply.

    Args:
        prompt: Templates: `without_contexts` is the instruction, and `passage` the paragraph of a
            passage.
        question: Question to ask.
        decoding: Generation settings.
        reply: Reply so far.
        passage: Passage on which the segment rests, if any.
    """
    beginning = f"{reply}{RETRIEVE}{prompt.format_passages([passage])}" if passage else reply
    messages = prompt.render(question, ())
    if beginning:
        messages = (*messages, Message("assistant", beginning))
    return Generate(
        messages,
        replace(decoding, logprobs=True),
        token_logprobs=TOKENS,
        passages=(passage,) if passage else (),
    )


def build_unaided_request(prompt: Prompt, question: Question, decoding: Decoding) -> Generate:
    """Build the request for a reply without passages."""
    return build_segment_request(prompt, question, decoding, reply=NO_RETRIEVAL)
