"""Iter-RetGen (Shao et al. 2023): the reply of each round is part of the query of the next one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.identity.values import check_values
from winnow.records import Answer, Context, Decoding, Question
from winnow.requests import Plan
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.prompt import Prompt
from winnow.strategies.rounds.searching import build_contexts, search
from winnow.strategies.vote import Vote


@dataclass(frozen=True, slots=True)
class IterRetGen:
    """A strategy that answers, searches for question and reply, and answers again from the results.

    Each round shows the passages of its own search alone. The last reply gives the answer. The
    default number of rounds is FlashRAG's.

    Args:
        prompt: Templates of the prompt.
        decoding: Generation settings.
        rounds: Number of rounds, of which the first shows the placed contexts.
        n: Number of passages that each search gives.
        vote: Majority vote, if the decoding draws several samples. The reply that it chooses is
            searched for.
    """

    revision: ClassVar[int] = 3

    prompt: Prompt
    decoding: Decoding
    rounds: Annotated[int, Ge(1)] = 3
    n: Annotated[int, Ge(1)] = 5
    vote: Vote = Vote()

    def __post_init__(self) -> None:
        check_values("strategy.plan", self)

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request an answer in each round until a search finds nothing, and return the last one."""
        reader = Concatenation(self.prompt, self.decoding, self.vote)
        answer = yield from reader.plan(question, contexts)
        for _ in range(self.rounds - 1):
            pages = yield from search(f"{question.text} {answer.reply}", self.n)
            if not pages.passages:
                return replace(answer, stop=pages.problem)
            answer = yield from reader.plan(question, build_contexts(pages))
        return answer
