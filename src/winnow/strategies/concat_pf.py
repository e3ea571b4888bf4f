"""Concat + PF: concatenation first, Post-Fusion as the fallback (Post-Fusion paper, section 3.3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from winnow.records import Answer, Context, Decoding, Plan, Question
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.post_fusion import PostFusion
from winnow.strategies.prompt import Prompt
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class ConcatPF:
    """Concatenates; only if the answer is "unknown", prompts passage by passage and votes."""

    prompt: Prompt
    decoding: Decoding
    vote: Vote = Vote()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request one prompt, and k more on "unknown"."""
        answer = yield from Concatenation(self.prompt, self.decoding, self.vote).plan(question, contexts)
        if not answer.unknown:
            return answer
        fallback = yield from PostFusion(self.prompt, self.decoding, self.vote).plan(question, contexts)
        return replace(fallback, trace=("fallback: post_fusion", *fallback.trace))
