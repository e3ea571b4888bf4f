"""Retrieval if the reader is unsure: when its answer without passages has an improbable token."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from winnow.errors import ReaderError
from winnow.identity.values import check_values
from winnow.records import Answer, Context, Decoding, Question
from winnow.requests import Plan
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.prompt import Prompt, build_request
from winnow.strategies.sampling import PromptReplies, check_one_path
from winnow.strategies.vote import Vote
from winnow.text.answers import extract_answer
from winnow.text.final import extract_final_text


@dataclass(frozen=True, slots=True)
class Unsure:
    """A strategy that answers without passages, or with them if that answer is unknown or unsure.

    An answer is as sure as the least probable token of its reply, which for a model on this machine
    includes the token that ends it. A threshold of 0 shows passages for unknown
    answers only, one of 1 for all but certain ones.

    Args:
        prompt: Templates of the prompts.
        decoding: Generation settings.
        threshold: Probability below which a token is improbable.
    """

    revision: ClassVar[int] = 3

    prompt: Prompt
    decoding: Decoding
    threshold: Annotated[float, Ge(0), Le(1)] = 0.5

    def __post_init__(self) -> None:
        check_values("strategy.plan", self)
        check_one_path("unsure", self.decoding)

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request an answer without passages; if it is unknown or unsure, request one with them."""
        (reply,) = yield [
            build_request(self.prompt, question, (), replace(self.decoding, logprobs=True))
        ]
        if reply.text.strip() and reply.logprobs is None:
            raise ReaderError(
                "The reader reports no log-probabilities, by which strategy=unsure decides. Use a "
                "reader that does (docs/readers.md)."
            )
        text = extract_final_text(reply.text)
        if reply.thoughts:
            raise ReaderError(
                "The reader reasons before its reply, and the log-probabilities, by which "
                "strategy=unsure decides, are of both. Use a reader that does not."
            )
        first = Vote().choose(question, PromptReplies((extract_answer(text),), (text,)))
        sureness = math.exp(min(reply.logprobs)) if reply.logprobs else 0.0
        note = f"probability: {sureness:.3f}"
        if not first.unknown and sureness >= self.threshold:
            return replace(first, trace=(note, *first.trace))
        answer = yield from Concatenation(self.prompt, self.decoding).plan(question, contexts)
        return replace(answer, trace=(note, f"without passages: {first.text}", *answer.trace))
