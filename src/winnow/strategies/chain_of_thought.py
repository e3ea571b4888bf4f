"""Chain of thought over all passages: pruning and summary prompts (Post-Fusion, figures 8 and 9).

`ChainOfThought` implements both prompts. They differ only in their templates, which are in
conf/strategy/pruning.yaml and conf/strategy/summary.yaml.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.identity.values import check_values
from winnow.records import Answer, Context, Decoding, Question
from winnow.requests import Plan
from winnow.strategies.prompt import Prompt, build_request
from winnow.strategies.sampling import request_replies
from winnow.strategies.vote import Vote
from winnow.text.answers import extract_reasoned_answer


@dataclass(frozen=True, slots=True)
class ChainOfThought:
    """A strategy that asks for a rationale ending in "Answer:", with all passages in one prompt.

    If the decoding draws several samples, a majority vote over them chooses the answer
    (self-consistency).

    Args:
        prompt: Prompt that formats the passages. Its instruction is replaced by `template`.
        decoding: Generation settings, except for `max_new_tokens`.
        template: Instruction and demonstration, with the fields {contexts} and {question}.
        max_new_tokens: Maximum number of tokens to generate for the rationale and the answer. It
            replaces the limit of `decoding`, because a rationale is longer than an answer.
        vote: Majority vote over the samples.
    """

    revision: ClassVar[int] = 7

    prompt: Prompt
    decoding: Decoding
    template: str
    max_new_tokens: Annotated[int, Ge(1)] = 256
    vote: Vote = Vote()

    def __post_init__(self) -> None:
        check_values("strategy.plan", self)
        if "{contexts}" in self.prompt.reply_start:
            raise ConfigError(
                "strategy.plan.template shows the passages, but "
                f"prompt.reply_start={self.prompt.reply_start!r} would show them again. Choose a "
                "prompt without passages there, such as prompt=plain."
            )
        self._build_prompt()

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request a rationale from one prompt with all contexts, and return the vote's answer."""
        decoding = replace(self.decoding, max_new_tokens=self.max_new_tokens)
        request = build_request(self._build_prompt(), question, contexts, decoding)
        (replies,) = yield from request_replies([request], extract_reasoned_answer)
        return self.vote.choose(question, replies)

    def _build_prompt(self) -> Prompt:
        """Return the prompt with instruction `template`; raise ConfigError if it lacks a field."""
        return replace(self.prompt, with_contexts=self.template, shots=None)
