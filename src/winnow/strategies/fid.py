"""Fusion-in-decoder: one request with a message per passage, for a reader that fuses them (reader=fid)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.records import Answer, Context, Decoding, FusedGenerate, Plan, Question
from winnow.strategies.prompt import Prompt
from winnow.strategies.sampling import request_pools
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class FusionInDecoder:
    """Sends one request with a message per passage.

    Only `winnow.readers.fid.FidReader` serves it: other readers would read the messages as one text.
    """

    revision: ClassVar[int] = 3

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request an answer from all contexts."""
        messages = tuple(message for context in contexts for message in self.prompt.render(question, [context]))
        passages = tuple(context.passage for context in contexts)
        (pool,) = yield from request_pools([FusedGenerate(messages, self.decoding, passages=passages)])
        return self.vote.choose(question, pool)
