"""Examples of joint methods (RE-RAG, RAG, fusion-in-decoder): questions with retrieved contexts."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from winnow.errors import InputError
from winnow.records import Context, Question
from winnow.strategies.teaching import ScoredReply
from winnow.targets import require_targets


@dataclass(frozen=True, slots=True)
class Group:
    """A question with its retrieved contexts: one training example of a joint method.

    Only `winnow.training.evaluator` reads the relevance labels of the contexts (`has_answer` and
    `is_gold`).

    Attributes:
        question: Question with every accepted answer.
        contexts: Retrieved contexts, at least one.
        answer_log_probs: Log-probability in nats of the first answer given each context, under a
            frozen generator. Empty if no frozen generator is used.
        replies: Answer of a frozen generator given each context, for evaluation. Empty if no frozen
            generator is used.
    """

    question: Question
    contexts: tuple[Context, ...]
    answer_log_probs: tuple[float, ...] = ()
    replies: tuple[ScoredReply, ...] = ()

    def __post_init__(self) -> None:
        question_id = self.question.question_id
        if not self.contexts:
            raise InputError(
                f"Question {question_id!r} has no contexts. Retrieve contexts for it, or remove it "
                "from the split."
            )
        for field, values in (
            ("answer_log_probs", self.answer_log_probs),
            ("replies", self.replies),
        ):
            if values and len(values) != len(self.contexts):
                raise InputError(
                    f"Question {question_id!r} has {len(values)} {field} but {len(self.contexts)} "
                    "contexts. Provide one value for each context."
                )

    def sample_target(self, seed: int, epoch: int) -> str:
        """Choose one of the question's answers as the target of an epoch, as in FiD.

        The choice depends only on the seed, the epoch and the id of the question. A question
        without an answer is an InputError.
        """
        return random.Random(f"{seed}/{epoch}/{self.question.question_id}").choice(
            require_targets(self.question)
        )


def shuffle_indices(num_groups: int, seed: int, epoch: int) -> list[int]:
    """Return the group indices in an order that only the number, seed and epoch determine."""
    order = list(range(num_groups))
    random.Random(f"{seed}/{epoch}").shuffle(order)
    return order


def list_question_ids(groups: Sequence[Group]) -> list[str]:
    """Return the ids of the groups' questions."""
    return [group.question.question_id for group in groups]


def describe_groups(groups: Sequence[Group]) -> list[list[Any]]:
    """Return all of the groups that a training reads, as plain values."""
    return [
        [
            group.question.question_id,
            group.question.text,
            list(group.question.answers),
            [context.passage.passage_id for context in group.contexts],
            list(group.answer_log_probs),
        ]
        for group in groups
    ]
