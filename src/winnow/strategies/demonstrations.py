"""Few-shot training questions with a passage that contains the answer (RE-RAG, tables 9 and 10)."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.records import Context, Passage, Question
from winnow.text.containment import find_shortest_answer

_CANDIDATES_PER_DEMONSTRATION = 32


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A question, a passage and the answer that it contains, as shown in a few-shot prompt."""

    question_id: str
    question: str
    passage: Passage
    answer: str


@dataclass(frozen=True, slots=True)
class Shots:
    """Selection of the demonstrations of a few-shot prompt.

    All prompts show the same demonstrations. One spare demonstration is added to them. It is shown
    if the question being asked is itself among the demonstrations, and replaces that one.

    Args:
        count: Number of demonstrations in a prompt. RE-RAG uses 8 for Natural Questions and 2 for
            TriviaQA.
        split: Split from which the demonstrations are drawn.
        seed: Seed of the random draw.
    """

    revision: ClassVar[int] = 1

    count: int = 8
    split: str = "train"
    seed: Annotated[int, Ge(0)] = 13

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ConfigError(
                f"prompt.shots.count must be at least 1; received {self.count}. Set "
                "prompt.shots=null for a prompt without demonstrations."
            )

    def draw_candidates(self, questions: Sequence[Question]) -> list[Question]:
        """Draw up to 32 questions per demonstration, since many have no passage with the answer."""
        num_candidates = min(len(questions), _CANDIDATES_PER_DEMONSTRATION * self.count)
        return random.Random(self.seed).sample(questions, num_candidates)

    def build_demonstrations(
        self, ranked: Iterable[tuple[Question, Sequence[Context]]]
    ) -> tuple[Demonstration, ...]:
        """Build `count` + 1 demonstrations from the first questions whose contexts have the answer.

        Each demonstration shows the best-ranked context that contains the answer.

        Args:
            ranked: Candidate questions, each with its contexts, best-ranked first.

        Raises:
            ConfigError: If fewer than `count` + 1 questions have such a context.
        """
        demonstrations: list[Demonstration] = []
        for question, contexts in ranked:
            best = next(
                (context for context in contexts if context.rank and context.has_answer), None
            )
            if best is not None and len(demonstrations) <= self.count:
                answer = find_shortest_answer(best.passage.text, question.answers)
                demonstrations.append(
                    Demonstration(question.question_id, question.text, best.passage, answer)
                )
        if len(demonstrations) <= self.count:
            raise ConfigError(
                f"prompt.shots needs {self.count} demonstrations and one spare, but only "
                f"{len(demonstrations)} candidate questions in split {self.split!r} have a "
                "retrieved passage that contains their answer. Lower prompt.shots.count, or set "
                "prompt.shots.split to another split."
            )
        return tuple(demonstrations)
