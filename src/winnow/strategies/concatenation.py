"""Concatenation: all k passages in one prompt (Post-Fusion paper, eq. 1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.records import Answer, Context, Decoding, Plan, Question
from winnow.strategies.prompt import Prompt, build_request
from winnow.strategies.sampling import request_pools
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Prompts the reader once with all passages. Several samples vote."""

    revision: ClassVar[int] = 3

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request an answer from all contexts."""
        (pool,) = yield from request_pools([build_request(self.prompt, question, contexts, self.decoding)])
        return self.vote.choose(question, pool)
