"""Concatenation: all k passages in one prompt (Post-Fusion paper, eq. 1)."""

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.records import Context, Decoding, Plan, Question
from winnow.strategies.prompt import Prompt, ask
from winnow.strategies.sampling import pools
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Asks once with all passages; several samples vote."""

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan:
        """Ask once."""
        (pool,) = yield from pools([ask(self.prompt, question, contexts, self.decoding)])
        return self.vote.single(question, pool)
