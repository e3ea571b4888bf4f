"""Closed book: the question alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.records import Answer, Context, Decoding, Plan, Question
from winnow.strategies.prompt import Prompt, build_request
from winnow.strategies.sampling import request_pools
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class ClosedBook:
    """One prompt without passages: what the reader knows by itself."""

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:  # noqa: ARG002 (the protocol)
        """Request one prompt; the contexts are ignored."""
        (pool,) = yield from request_pools([build_request(self.prompt, question, (), self.decoding)])
        return self.vote.single(question, pool)
