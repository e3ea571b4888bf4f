"""Chain of thought over all passages: the pruning and summary prompts (Post-Fusion paper, figures 8 and 9).

Both prompts are implemented by the class below. Their templates are in conf/strategy/pruning.yaml and
conf/strategy/summary.yaml.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from winnow.errors import ConfigError
from winnow.records import Answer, Context, Decoding, Plan, Question
from winnow.strategies.prompt import Prompt, build_request
from winnow.strategies.replies import extract_reasoned_answer
from winnow.strategies.sampling import request_pools
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class ChainOfThought:
    """Asks the reader for a rationale that ends in "Answer:", with all passages in one prompt.

    If the decoding draws several samples, the answer is chosen by majority vote (self-consistency).

    Args:
        prompt: Prompt that formats the passages. Its instruction is replaced by `template`.
        decoding: Generation settings. `max_new_tokens` replaces theirs, because a rationale is longer than an answer.
        template: Instruction and demonstration, with the fields {contexts} and {question}.
        max_new_tokens: Maximum number of tokens to generate for the rationale and the answer.
        vote: Majority vote over the samples.

    """

    revision: ClassVar[int] = 3

    prompt: Prompt
    decoding: Decoding
    template: str
    max_new_tokens: int = 256
    vote: Vote = Vote()

    def __post_init__(self) -> None:
        """Validate the template and the token limit."""
        self._build_prompt()
        if self.max_new_tokens < 1:
            raise ConfigError(f"strategy.plan.max_new_tokens must be at least 1; received {self.max_new_tokens}.")

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Build one request with all contexts, and return the voted answer."""
        decoding = replace(self.decoding, max_new_tokens=self.max_new_tokens)
        requests = [build_request(self._build_prompt(), question, contexts, decoding)]
        (pool,) = yield from request_pools(requests, extract_reasoned_answer)
        return self.vote.choose(question, pool)

    def _build_prompt(self) -> Prompt:
        """Put the template in place of the prompt's instruction; the prompt checks its fields."""
        return replace(self.prompt, with_contexts=self.template, shots=None)
