"""Closed book: the question alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.records import Context, Decoding, Plan, Question
from winnow.strategies.prompt import Prompt, ask
from winnow.strategies.sampling import pools
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class ClosedBook:
    """Asks without any passage; what the reader knows by itself."""

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan:  # noqa: ARG002 (the protocol)
        """Ask once; the contexts are ignored."""
        (pool,) = yield from pools([ask(self.prompt, question, (), self.decoding)])
        return self.vote.single(question, pool)
