"""The training examples of joint methods: a question, its answers, and the contexts that were retrieved for it."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from winnow.errors import InputError
from winnow.records import Context, Question
from winnow.strategies.teaching import ScoredReply


@dataclass(frozen=True, slots=True)
class Group:
    """A question with its contexts, as retrieved; no label of relevance is read in training.

    Attributes:
        question: with every accepted answer.
        contexts: at least one.
        log_answer: log P_G(first answer | question, context) of a frozen generator, one per context; empty without one.
        replies: a frozen generator's answers from each context, for evaluation; empty without one.

    """

    question: Question
    contexts: tuple[Context, ...]
    log_answer: tuple[float, ...] = ()
    replies: tuple[ScoredReply, ...] = ()

    def __post_init__(self) -> None:
        """Refuse examples that teach nothing."""
        name = self.question.question_id
        if not self.contexts:
            raise InputError(f"Question {name!r} has no contexts; retrieve for it, or leave it out of the split.")
        if not self.question.nonblank_answers:
            raise InputError(f"Question {name!r} has only blank answers; correct the data set or leave it out.")
        for what, values in (("log_answer", self.log_answer), ("replies", self.replies)):
            if values and len(values) != len(self.contexts):
                raise InputError(f"Question {name!r}: {len(values)} {what} for {len(self.contexts)} contexts.")

    def target(self, seed: int, epoch: int) -> str:
        """Return the answer to learn in an epoch: one of the accepted ones, drawn as in FiD."""
        return random.Random(f"{seed}/{epoch}/{self.question.question_id}").choice(self.question.nonblank_answers)


def order_of(count: int, seed: int, epoch: int) -> list[int]:
    """Return the order of an epoch's groups, which depends on seed and epoch only."""
    order = list(range(count))
    random.Random(f"{seed}/{epoch}").shuffle(order)
    return order


def names(groups: Sequence[Group]) -> list[str]:
    """Return the ids of the groups' questions."""
    return [group.question.question_id for group in groups]
