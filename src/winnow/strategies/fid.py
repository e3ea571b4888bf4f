"""Fusion-in-decoder as a strategy: one request with a message per passage, which its reader fuses (reader=fid)."""

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.records import Answer, Context, Decoding, Generate, Plan, Question
from winnow.strategies.prompt import Prompt
from winnow.strategies.sampling import request_pools
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class FusionInDecoder:
    """One request with a message per passage; needs `winnow.readers.fid.FidReader`: others would read them as one text."""

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request one reply."""
        messages = tuple(message for context in contexts for message in self.prompt.render(question, [context]))
        passages = tuple(context.passage for context in contexts)
        (pool,) = yield from request_pools([Generate(messages, self.decoding, passages=passages)])
        return self.vote.single(question, pool)
