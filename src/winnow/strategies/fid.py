"""Fusion-in-decoder: one request with a message per passage for the reader to fuse (reader=fid)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.records import Answer, Context, Decoding, Question
from winnow.requests import FusedGenerate, Message, Plan
from winnow.strategies.prompt import Prompt
from winnow.strategies.sampling import request_replies
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class FusionInDecoder:
    """A strategy that sends one request with a message per passage.

    Only `winnow.readers.fid.FidReader` serves this request. Other readers would join the messages
    into one text.

    Args:
        prompt: Templates of the prompt, which is formatted once per passage. The model encodes the
            system message and the beginning of the reply, if there are any, with each passage.
        decoding: Generation settings.
        vote: Majority vote, if the decoding draws several samples.
    """

    revision: ClassVar[int] = 7

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request an answer from all contexts together, or to the question alone without any."""
        rendered_prompts = [
            self.prompt.render(question, one)
            for one in ([[context] for context in contexts] or [[]])
        ]
        messages = tuple(
            Message("user", "\n\n".join(part.content for part in parts))
            for parts in rendered_prompts
        )
        passages = tuple(context.passage for context in contexts)
        (replies,) = yield from request_replies(
            [FusedGenerate(messages, self.decoding, passages=passages)]
        )
        return self.vote.choose(question, replies)
