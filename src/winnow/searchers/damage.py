"""Damage to a searched corpus: relevant passages that are not found or give a wrong answer."""

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from winnow.errors import ConfigError
from winnow.identity.values import check_values
from winnow.records import Passage, Question
from winnow.text.containment import has_answer, replace_answers
from winnow.text.normalization import normalize

How = Literal["removed", "poisoned"]
_NUM_DRAWS = 100
"""Number of answers that are drawn before all are tried in their order."""
POISONED = "#poisoned"
"""Id suffix of a passage with replaced answers, so that metrics do not take it for the original."""


@dataclass(frozen=True, slots=True)
class SearchDamage:
    """A rule that damages a seeded share of a corpus's relevant passages in every search of a plan.

    What a smaller share damages, a larger one damages too. A removed passage is not found, and the
    next one takes its place. In a poisoned one, answers to a question are replaced by that of
    another question, the same in all passages; it keeps its rank, as the passage that it was made
    of. A relevant passage from which the answers cannot be taken, such as an annotated one that
    words it otherwise, stays as it is.

    Args:
        how: "removed" or "poisoned".
        share: Share of the relevant passages that are damaged, on average; from 0 to 1.
        seed: Seed of the choice of passages and of wrong answers.
    """

    revision: ClassVar[int] = 1

    how: How = "removed"
    share: Annotated[float, Ge(0), Le(1)] = 0.5
    seed: Annotated[int, Ge(0)] = 13

    def __post_init__(self) -> None:
        check_values("search.damage", self)

    def change(
        self,
        relevant: Mapping[str, Sequence[Question]],
        passages: Mapping[str, Passage],
        questions: Sequence[Question],
    ) -> dict[str, Passage | None]:
        """Return what the damaged passages become, by their ids: None for a removed one.

        Args:
            relevant: Questions to which each relevant passage belongs, by passage id.
            passages: Passages of the corpus by id.
            questions: Questions whose answers are the wrong ones of others.
        """
        sample = [
            id_ for id_ in sorted(relevant) if self._draw(f"passage/{id_}").random() < self.share
        ]
        if self.how == "removed":
            return dict.fromkeys(sample)
        wrong = self._choose_wrong_answers(relevant, questions)
        poisoned_passages = {id_: _poison(passages[id_], relevant[id_], wrong) for id_ in sample}
        return {id_: passage for id_, passage in poisoned_passages.items() if passage is not None}

    def _choose_wrong_answers(
        self, relevant: Mapping[str, Sequence[Question]], questions: Sequence[Question]
    ) -> dict[str, str]:
        """Return the wrong answer to each question that has a relevant passage, by question id.

        Questions that share an answer have the same wrong one, which is wrong for every question
        that has a passage in common with one of them. It does not depend on the share.
        """
        by_id = {
            question.question_id: question for group in relevant.values() for question in group
        }
        beside: dict[str, set[str]] = {question_id: set() for question_id in by_id}
        for together in relevant.values():
            for question in together:
                beside[question.question_id].update(other.question_id for other in together)
        wrong: dict[str, str] = {}
        for group in _group_by_answers([by_id[question_id] for question_id in sorted(by_id)]):
            around = sorted(set().union(*(beside[question.question_id] for question in group)))
            right = [answer for question_id in around for answer in by_id[question_id].answers]
            wrong |= dict.fromkeys(
                [question.question_id for question in group],
                self._draw_answer(group[0], right, questions),
            )
        return wrong

    def _draw_answer(
        self, question: Question, right: Sequence[str], questions: Sequence[Question]
    ) -> str:
        """Return another question's answer that neither contains a right answer nor is part of one.

        Raises:
            ConfigError: If there is none.
        """
        draw = self._draw(f"answer/{question.question_id}")
        numbers = (draw.randrange(len(questions)) for _ in range(_NUM_DRAWS))
        for number in itertools.chain(numbers, range(len(questions))):
            answer = questions[number].answers[0] if questions[number].answers else ""
            if (
                answer.strip()
                and not has_answer(answer, right)
                and not any(has_answer(one, [answer]) for one in right)
            ):
                return answer
        raise ConfigError(
            "search.damage.how=poisoned: no other question has an answer that is wrong for "
            f"{question.question_id!r} ({question.text!r}). Take more questions (sweep.split), or "
            "search.damage.how=removed."
        )

    def _draw(self, what: str) -> random.Random:
        return random.Random(f"{self.seed}/search/{what}")


def _group_by_answers(questions: Sequence[Question]) -> list[list[Question]]:
    """Return the questions in groups, no two of which share an answer, each in question order."""
    groups: list[list[Question]] = []
    group_of: dict[str, list[Question]] = {}
    for question in questions:
        names = set(filter(None, map(normalize, question.answers)))
        merged_group = [question]
        for group in {
            id(group_of[name]): group_of[name] for name in sorted(names) if name in group_of
        }.values():
            merged_group = [*group, *merged_group]
            groups.remove(group)
        groups.append(merged_group)
        group_of |= dict.fromkeys(
            filter(None, [normalize(answer) for one in merged_group for answer in one.answers]),
            merged_group,
        )
    return groups


def _poison(
    passage: Passage, questions: Sequence[Question], wrong: Mapping[str, str]
) -> Passage | None:
    """Return a passage with all answers replaced, or None if it has no answer or would keep one."""
    text, title = passage.text, passage.title
    for question in questions:
        text, title = (
            replace_answers(part, question.answers, wrong[question.question_id])
            for part in (text, title)
        )
    is_changed = (text, title) != (passage.text, passage.title)
    if not is_changed or any(
        has_answer(part, question.answers) for part in (text, title) for question in questions
    ):
        return None
    return replace(passage, passage_id=passage.passage_id + POISONED, text=text, title=title)
