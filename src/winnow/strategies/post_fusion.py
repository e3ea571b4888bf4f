"""Post-Fusion: an answer from each passage alone, then a majority vote (Post-Fusion paper, eq. 2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.records import Answer, Context, Decoding, Plan, Question
from winnow.strategies.prompt import Prompt, build_request
from winnow.strategies.sampling import request_pools
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class PostFusion:
    """Prompts the reader with each passage alone. All answers vote: p samples for each of k passages are p * k votes."""

    revision: ClassVar[int] = 3

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request an answer from each context."""
        pools = yield from request_pools([build_request(self.prompt, question, [c], self.decoding) for c in contexts])
        return self.vote.majority(question, contexts, pools)
