"""Citation: all passages in one prompt, and a reply that cites them by number (RAGE, figure 1)."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.identity.values import check_values
from winnow.records import Answer, Context, Decoding, Passage, Question
from winnow.requests import Plan
from winnow.strategies.prompt import Prompt, build_request
from winnow.strategies.sampling import request_replies
from winnow.strategies.unknown import is_unknown
from winnow.strategies.vote import Vote
from winnow.text.answers import extract_answer
from winnow.text.citations import BRACKETED_NUMBER, remove_citations
from winnow.text.words import cut_words


def _parenthesise_numbers(text: str) -> str:
    return BRACKETED_NUMBER.sub(r"(\1)", text)


@dataclass(frozen=True, slots=True)
class Cite:
    """A strategy that prompts the reader once, with all passages, for a reply with citations [n].

    The answer is the reply without its citations; metrics of citations read the reply. Numbers in
    brackets in the text or the title of a passage, as in Wikipedia's references, are put in
    parentheses.

    Args:
        prompt: Templates of the prompt, whose `passage` shows {number} in brackets.
        decoding: Generation settings.
        max_words: Number of words to which the text of each passage is cut, or None for whole
            passages.
        vote: Majority vote, if the decoding draws several samples.
    """

    revision: ClassVar[int] = 5

    prompt: Prompt
    decoding: Decoding
    max_words: Annotated[int, Ge(1)] | None = None
    vote: Vote = Vote()

    def __post_init__(self) -> None:
        check_values("strategy.plan", self)

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request a reply that cites the contexts."""
        request = build_request(self.prompt, question, self.prepare(contexts), self.decoding)
        (replies,) = yield from request_replies([request], _extract_uncited_answer)
        return self.vote.choose(question, replies)

    def prepare(self, contexts: Sequence[Context]) -> list[Context]:
        """Return the contexts as the prompt shows them: without bracketed numbers, and cut to
        `max_words`. Their labels are those of the whole passages.
        """
        return [
            replace(context, passage=prepare_passage(context.passage, self.max_words))
            for context in contexts
        ]


def prepare_passage(passage: Passage, max_words: int | None) -> Passage:
    """Return a passage without bracketed numbers, cut to a number of words; None means all."""
    text = cut_words(passage.text, max_words)
    return replace(
        passage, title=_parenthesise_numbers(passage.title), text=_parenthesise_numbers(text)
    )


def _extract_uncited_answer(reply: str) -> str:
    return extract_answer(remove_citations(reply))


@dataclass(frozen=True, slots=True)
class CiteRandomly:
    """A baseline that cites some passages at random and asks no model (RAGE, table 1).

    Args:
        prompt: Templates of the prompt, which are not used.
        decoding: Generation settings, which are not used.
        minimum: Smallest number of citations.
        maximum: Largest number of citations, at most the number of passages (RAGE: 3).
        seed: Seed of the draws, which also depend on the question.
    """

    prompt: Prompt
    decoding: Decoding
    minimum: int = 1
    maximum: int = 3
    seed: Annotated[int, Ge(0)] = 13

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.maximum:
            raise ConfigError(
                "strategy.plan.minimum must be at least 1 and at most strategy.plan.maximum; "
                f"received {self.minimum} and {self.maximum}."
            )

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Return distinct random citations, each number of them with equal probability."""
        yield from ()
        rng = random.Random(f"{self.seed}/cite/{question.question_id}")
        maximum = min(self.maximum, len(contexts))
        count = rng.randint(min(self.minimum, maximum), maximum)
        numbers = rng.sample(range(1, len(contexts) + 1), count)
        reply = "".join(f"[{number}]" for number in numbers)
        used_passages = tuple(context.passage for context in contexts)
        return Answer("", is_unknown(""), used=used_passages, reply=reply)
