"""Damage of a corpus that is searched: relevant passages that are not found, or that give a wrong answer."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, get_args

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.records import Passage, Question
from winnow.text.containment import has_answer, replace_answers

How = Literal["removed", "poisoned"]
POISONED = "#poisoned"
"""End of the id of a passage whose answers were replaced, so that no metric takes it for the passage that it was made of."""


@dataclass(frozen=True, slots=True)
class SearchDamage:
    """A rule that damages a seeded share of the relevant passages of a corpus, for every search of a plan.

    What a smaller share damages, a larger one damages too. A removed passage is not found, and the next one takes its place.
    In a poisoned one, answers to a question are replaced by that of another question, the same in all passages; it keeps its
    rank, as the passage that it was made of. A relevant passage from which the answers cannot be taken, such as an annotated
    one that words it otherwise, stays as it is.

    Args:
        how: "removed" or "poisoned".
        share: Share of the relevant passages that are damaged, on average; from 0 to 1.
        seed: Seed of the choice of passages and of wrong answers.

    """

    revision: ClassVar[int] = 1

    how: How = "removed"
    share: float = 0.5
    seed: Annotated[int, Ge(0)] = 13

    def __post_init__(self) -> None:
        """Raise ConfigError for an unknown kind and for a share outside of [0, 1]."""
        if self.how not in get_args(How) or not 0 <= self.share <= 1:
            raise ConfigError(
                f"search.damage: how must be removed or poisoned, and share from 0 to 1; received {self.how!r}, {self.share}."
            )

    def change(
        self, relevant: Mapping[str, Sequence[Question]], passages: Mapping[str, Passage], questions: Sequence[Question]
    ) -> dict[str, Passage | None]:
        """Return what the damaged passages become, by their ids: None for a removed one.

        Args:
            relevant: Questions to which each relevant passage belongs, by passage id.
            passages: Passages of the corpus by id.
            questions: Questions whose answers are the wrong ones of others.

        """
        drawn = [id_ for id_ in sorted(relevant) if self._draw(f"passage/{id_}").random() < self.share]
        if self.how == "removed":
            return dict.fromkeys(drawn)
        asked: dict[str, list[Question]] = {}  # each question, and those that have a passage in common with it
        for id_ in drawn:
            for question in relevant[id_]:
                asked.setdefault(question.question_id, [question]).extend(relevant[id_])
        wrong = {id_: self._choose_wrong_answer(beside, questions) for id_, beside in asked.items()}
        changed = {id_: _poison(passages[id_], relevant[id_], wrong) for id_ in drawn}
        return {id_: passage for id_, passage in changed.items() if passage is not None}

    def _choose_wrong_answer(self, asked: Sequence[Question], questions: Sequence[Question]) -> str:
        """Return the answer of another question that is neither part of a right answer nor contains one.

        Args:
            asked: The question, and those to which the answer must be wrong too.
            questions: Questions whose answers may be taken.

        Raises:
            ConfigError: If there is none.

        """
        right = [answer for question in asked for answer in question.answers]
        own = asked[0].question_id
        others = sorted(questions, key=lambda other: self._draw(f"answer/{own}/{other.question_id}").random())
        for other in others:
            answer = other.answers[0] if other.answers else ""
            if answer.strip() and not has_answer(answer, right) and not any(has_answer(one, [answer]) for one in right):
                return answer
        raise ConfigError(
            f"search.damage.how=poisoned: no other question has an answer that is wrong for {own!r} ({asked[0].text!r}). Take "
            "more questions (sweep.split), or search.damage.how=removed."
        )

    def _draw(self, what: str) -> random.Random:
        return random.Random(f"{self.seed}/search/{what}")


def _poison(passage: Passage, questions: Sequence[Question], wrong: Mapping[str, str]) -> Passage | None:
    """Return a passage with wrong answers in text and title, or None if it has no answer, or one that cannot be taken out."""
    text, title = passage.text, passage.title
    for question in questions:
        text, title = (replace_answers(part, question.answers, wrong[question.question_id]) for part in (text, title))
    if text == passage.text or any(has_answer(text, question.answers) for question in questions):
        return None
    return replace(passage, passage_id=passage.passage_id + POISONED, text=text, title=title)
