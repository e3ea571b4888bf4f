"""Replies of a Self-RAG model whose probabilities are written by hand."""

import math
from collections.abc import Mapping

from winnow.requests import Generate, Generation
from winnow.strategies.prompt import Prompt
from winnow.strategies.self_rag.reflection import NO_RETRIEVAL, RETRIEVE, TOKENS, SegmentScore
from winnow.strategies.self_rag.segments import Retrieval
from winnow.testing import make_context, make_question

PROMPT = Prompt(
    "{contexts} {question}",
    "Do: {question}",
    "{contexts} {candidates} {question}",
    "<p>{title}|{text}</p>",
)
QUESTION = make_question("who?")
CONTEXTS = [make_context(1, "one"), make_context(2, "two"), make_context(3, "three")]
RELEVANCE_ONLY = SegmentScore(relevance=1, support=0, utility=0, likelihood=0)
ALWAYS, NEVER = Retrieval("always"), Retrieval("never")


def reply(
    text: str, relevant: float = 0.5, retrieve: Mapping[int, float] | None = None
) -> Generation:
    """A reply with a probability of relevance, and probabilities of retrieval at positions."""
    steps = 10
    named = {token: [-50.0] * steps for token in TOKENS}
    named["[Relevant]"][0], named["[Irrelevant]"][0] = math.log(relevant), math.log(1 - relevant)
    for position, probability in (retrieve or {}).items():
        named[RETRIEVE][position], named[NO_RETRIEVAL][position] = (
            math.log(probability),
            math.log(1 - probability),
        )
    positions = dict.fromkeys(TOKENS, ()) | {
        NO_RETRIEVAL: tuple(position for position in retrieve or {} if position)
    }
    logprobs = {token: tuple(values) for token, values in named.items()}
    return Generation(
        text, logprobs=(-0.5,) * steps, token_logprobs=logprobs, token_positions=positions
    )


def beginning(request: Generate) -> str:
    """The reply so far, which the model is to continue."""
    return request.messages[-1].content if request.messages[-1].role == "assistant" else ""
