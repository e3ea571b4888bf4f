"""Whether citations are used: the reply with all passages, and another without the cited ones."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from winnow.identity.values import check_values
from winnow.metrics.citation_use import CHANGED
from winnow.records import Answer, Context, Decoding, Question
from winnow.requests import Plan
from winnow.strategies.cite import Cite
from winnow.strategies.prompt import Prompt
from winnow.strategies.vote import Vote
from winnow.text.citations import find_citations
from winnow.text.normalization import normalize_candidate

Removed = Literal["cited", "uncited"]


@dataclass(frozen=True, slots=True)
class CiteWithout:
    """A strategy that cites as `Cite` does, and asks again without the cited passages, or without
    as many of the others.

    A citation may be correct, because the passage supports the answer, and yet not faithful,
    because the reader would have given the answer without it (Wallat et al. 2024, who call it
    post-rationalized and put the statement into other passages instead). The answer comes from the
    first reply, whose call is the same as `Cite` makes. Whether the second one differs, after
    normalization, is in the trace, which the metric `changed` reads; the removal of uncited
    passages is what the share is compared with, because a prompt with other passages changes
    answers, too. A reply without a valid citation, or without enough other passages, is not asked
    again.

    Args:
        prompt: Templates of the prompt, whose `passage` shows {number} in brackets.
        decoding: Generation settings.
        max_words: Number of words to which the text of each passage is cut, or None for whole
            passages.
        removed: Passages that the second prompt lacks.
        seed: Seed of the draw of uncited passages, which also depends on the question.
        vote: Majority vote, if the decoding draws several samples.
    """

    revision: ClassVar[int] = 3

    prompt: Prompt
    decoding: Decoding
    max_words: Annotated[int, Ge(1)] | None = None
    removed: Removed = "cited"
    seed: Annotated[int, Ge(0)] = 13
    vote: Vote = Vote()

    def __post_init__(self) -> None:
        check_values("strategy.plan", self)

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request a reply that cites the contexts, then one without some of them."""
        cite = Cite(self.prompt, self.decoding, self.max_words, self.vote)
        first = yield from cite.plan(question, contexts)
        shown_contexts = [
            context
            for context, prepared in zip(contexts, cite.prepare(contexts), strict=True)
            if prepared.passage in first.used  # some may not have fitted
        ]
        numbers = {
            number
            for number in find_citations(first.reply, len(shown_contexts), "strict")
            if 1 <= number <= len(shown_contexts)
        }
        others = [number for number in range(1, len(shown_contexts) + 1) if number not in numbers]
        if not numbers or len(others) < len(numbers):
            return first
        if self.removed == "uncited":
            numbers = set(
                random.Random(f"{self.seed}/without/{question.question_id}").sample(
                    others, len(numbers)
                )
            )
        rest = [
            context
            for number, context in enumerate(shown_contexts, start=1)
            if number not in numbers
        ]
        second = yield from cite.plan(question, rest)
        is_changed = normalize_candidate(second.text) != normalize_candidate(first.text)
        without = f"without {', '.join(map(str, sorted(numbers)))}: {second.text}"
        return replace(
            first, trace=(*first.trace, without, f"{CHANGED}{'yes' if is_changed else 'no'}")
        )
