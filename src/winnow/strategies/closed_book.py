"""Closed book: the reader answers the question without passages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.records import Answer, Context, Decoding, Plan, Question
from winnow.strategies.prompt import Prompt, build_request
from winnow.strategies.sampling import request_pools
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class ClosedBook:
    """Prompts the reader with the question alone, to measure its parametric knowledge."""

    revision: ClassVar[int] = 3

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:  # noqa: ARG002 (the protocol)
        """Request an answer to the question; the contexts are ignored."""
        (pool,) = yield from request_pools([build_request(self.prompt, question, (), self.decoding)])
        return self.vote.choose(question, pool)
