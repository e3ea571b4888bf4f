"""Closed book: the reader answers the question without passages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.records import Answer, Context, Decoding, Question
from winnow.requests import Plan
from winnow.strategies.prompt import Prompt, build_request
from winnow.strategies.sampling import request_replies
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class ClosedBook:
    """A strategy that prompts the reader with only the question, to measure parametric knowledge.

    Args:
        prompt: Templates of the prompt.
        decoding: Generation settings.
        vote: Majority vote, if the decoding draws several samples.
    """

    revision: ClassVar[int] = 6

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:  # noqa: ARG002 (part of the protocol)
        """Request an answer to the question; the contexts are ignored."""
        request = build_request(self.prompt, question, (), self.decoding)
        (replies,) = yield from request_replies([request])
        return self.vote.choose(question, replies)
