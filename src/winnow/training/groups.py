"""Training examples of joint methods: a question with its answers and its retrieved contexts."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from winnow.errors import InputError
from winnow.records import Context, Question
from winnow.strategies.teaching import ScoredReply
from winnow.targets import targets


@dataclass(frozen=True, slots=True)
class Group:
    """A question with its contexts, as retrieved. Training reads no relevance labels.

    Attributes:
        question: Question with every accepted answer.
        contexts: Retrieved contexts, at least one.
        log_answer: log P_G(first answer | question, context) of a frozen generator for each context; empty
            without a frozen generator.
        replies: Answer of a frozen generator from each context, for evaluation; empty without one.

    """

    question: Question
    contexts: tuple[Context, ...]
    log_answer: tuple[float, ...] = ()
    replies: tuple[ScoredReply, ...] = ()

    def __post_init__(self) -> None:
        """Validate that there are contexts and answers to learn from."""
        name = self.question.question_id
        if not self.contexts:
            raise InputError(f"Question {name!r} has no contexts; retrieve for it, or leave it out of the split.")
        if not targets(self.question):
            raise InputError(f"Question {name!r} has only blank answers; correct the data set or leave it out.")
        for field, values in (("log_answer", self.log_answer), ("replies", self.replies)):
            if values and len(values) != len(self.contexts):
                raise InputError(f"Question {name!r}: {len(values)} {field} for {len(self.contexts)} contexts.")

    def target(self, seed: int, epoch: int) -> str:
        """Draw the target answer of an epoch from the question's targets, as in FiD."""
        return random.Random(f"{seed}/{epoch}/{self.question.question_id}").choice(targets(self.question))


def order_of(count: int, seed: int, epoch: int) -> list[int]:
    """Shuffle the positions of `count` groups for an epoch; the order depends only on the count, the seed and the epoch."""
    order = list(range(count))
    random.Random(f"{seed}/{epoch}").shuffle(order)
    return order


def names(groups: Sequence[Group]) -> list[str]:
    """Return the ids of the groups' questions."""
    return [group.question.question_id for group in groups]
