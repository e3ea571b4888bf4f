"""Concat + PF: concatenation, with Post-Fusion as the fallback (Post-Fusion paper, section 3.3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from winnow.records import Answer, Context, Decoding, Question
from winnow.requests import Plan
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.post_fusion import PostFusion
from winnow.strategies.prompt import Prompt
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class ConcatPF:
    """A strategy that puts all passages in one prompt, and falls back to Post-Fusion on "unknown".

    Args:
        prompt: Templates of the prompt, for both steps.
        decoding: Generation settings.
        vote: Majority vote over the samples of the first prompt, and over the answers of
            Post-Fusion.
    """

    revision: ClassVar[int] = 7

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request an answer from all contexts; if it is "unknown", one from each context alone."""
        answer = yield from Concatenation(self.prompt, self.decoding, self.vote).plan(
            question, contexts
        )
        if not answer.unknown:
            return answer
        fallback = yield from PostFusion(self.prompt, self.decoding, self.vote).plan(
            question, contexts
        )
        return replace(fallback, trace=("fallback: post_fusion", *fallback.trace))
