"""Selection of labeled question-passage pairs, on which a relevance evaluator is trained."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.contexts.gold import is_relevant
from winnow.errors import ConfigError
from winnow.records import Context, Question
from winnow.text.containment import has_answers
from winnow.training.groups import Group


@dataclass(frozen=True, slots=True)
class PairSelection:
    """Numbers of relevant and irrelevant passages per question.

    The choice depends only on the seed and the question, and that of random negatives also on the
    other questions.

    Args:
        positives: Maximum number of relevant passages. Questions without one are left out.
        hard_negatives: Maximum number of irrelevant passages among those that were retrieved for
            the question.
        random_negatives: Number of passages that were retrieved for other questions and contain no
            answer to this one.
        seed: Seed of the choice.
    """

    revision: ClassVar[int] = 2

    positives: int = 2
    hard_negatives: int = 2
    random_negatives: int = 0
    seed: Annotated[int, Ge(0)] = 13

    def __post_init__(self) -> None:
        negatives = (self.hard_negatives, self.random_negatives)
        if self.positives < 1 or min(negatives) < 0 or not any(negatives):
            raise ConfigError(
                "joint.data.pairs needs positives of at least 1, and at least one hard or random "
                f"negative; received positives={self.positives}, hard_negatives={negatives[0]} "
                f"and random_negatives={negatives[1]}."
            )

    def select(self, groups: Sequence[Group]) -> list[Group]:
        """Select the pairs of each question that has both a relevant and an irrelevant passage."""
        pool = [context for group in groups for context in group.contexts]
        selected_groups = []
        for group in groups:
            rng = random.Random(f"{self.seed}/pairs/{group.question.question_id}")
            relevant = [context for context in group.contexts if is_relevant(context)]
            irrelevant = [context for context in group.contexts if not is_relevant(context)]
            negatives = rng.sample(irrelevant, min(self.hard_negatives, len(irrelevant)))
            negatives += self._draw_random(group.question, group.contexts, pool, rng)
            if relevant and negatives:
                positives = rng.sample(relevant, min(self.positives, len(relevant)))
                selected_groups.append(replace(group, contexts=(*positives, *negatives)))
        return selected_groups

    def _draw_random(
        self,
        question: Question,
        own: Sequence[Context],
        pool: Sequence[Context],
        rng: random.Random,
    ) -> list[Context]:
        """Draw up to `random_negatives` other questions' passages without an answer to this one."""
        if not self.random_negatives:
            return []
        own_ids = {context.passage.passage_id for context in own} | set(question.gold_passage_ids)
        candidates = (
            pool[index]
            for index in rng.sample(range(len(pool)), min(len(pool), 20 * self.random_negatives))
        )
        others = {context.passage.passage_id: context for context in candidates}
        negatives = [context for passage_id, context in others.items() if passage_id not in own_ids]
        contain_answer = has_answers(
            [context.passage.text for context in negatives], question.answers
        )
        irrelevant = [
            context
            for context, contains in zip(negatives, contain_answer, strict=True)
            if not contains
        ]
        return [
            replace(context, rank=0, has_answer=False, is_gold=False)
            for context in irrelevant[: self.random_negatives]
        ]
