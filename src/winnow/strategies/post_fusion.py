"""Post-Fusion: an answer from each passage alone, then a majority vote (Post-Fusion, eq. 2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.records import Answer, Context, Decoding, Question
from winnow.requests import Plan
from winnow.strategies.prompt import Prompt, build_request
from winnow.strategies.sampling import request_replies
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class PostFusion:
    """A strategy that prompts the reader with each passage alone and lets all answers vote.

    With p samples for each of k passages, there are p * k votes.

    Args:
        prompt: Templates of the prompt.
        decoding: Generation settings.
        vote: Majority vote over the answers from all passages.
    """

    revision: ClassVar[int] = 8

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request an answer from each context alone, and return the majority answer."""
        requests = [
            build_request(self.prompt, question, [context], self.decoding) for context in contexts
        ]
        replies_by_context = yield from request_replies(requests)
        return self.vote.choose_majority(question, contexts, replies_by_context)
