"""Fusion-in-decoder as a strategy: one request that holds each passage's prompt; its reader fuses them (reader=fid)."""

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.records import Context, Decoding, Generate, Plan, Question
from winnow.strategies.prompt import Prompt
from winnow.strategies.sampling import pools
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class FusionInDecoder:
    """Asks once, with a message a passage; needs `winnow.readers.fid.FidReader`, as others would read them as one text."""

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan:
        """Ask once."""
        messages = tuple(message for context in contexts for message in self.prompt.render(question, [context]))
        (pool,) = yield from pools([Generate(messages, self.decoding)])
        return self.vote.single(question, pool)
