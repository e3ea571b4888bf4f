"""Post-Fusion: each passage alone, then a majority vote (Post-Fusion paper, eq. 2)."""

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.records import Context, Decoding, Plan, Question
from winnow.strategies.prompt import Prompt, ask
from winnow.strategies.sampling import pools
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class PostFusion:
    """Asks once a passage and lets the answers vote (p samples of k passages are p * k votes)."""

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan:
        """Ask for all passages at once."""
        found = yield from pools([ask(self.prompt, question, [context], self.decoding) for context in contexts])
        return self.vote.elect(question, contexts, found)
