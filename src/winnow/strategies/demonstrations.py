"""Few-shot demonstrations: training questions with a passage that contains the answer (RE-RAG, tables 9 and 10)."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.errors import ConfigError
from winnow.metrics.ranking import shortest_contained_answer
from winnow.records import Context, Passage, Question


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A question with a passage and the answer, as shown in a few-shot prompt."""

    question_id: str
    question: str
    passage: Passage
    answer: str


@dataclass(frozen=True, slots=True)
class Shots:
    """Selection of the demonstrations of a few-shot prompt.

    All prompts show the same demonstrations. One more is drawn, which replaces a demonstration of the question itself.

    Args:
        count: Number of demonstrations in a prompt. The paper uses 8 for Natural Questions and 2 for TriviaQA.
        split: Split from which the demonstrations are drawn.
        seed: Seed of the draw.

    """

    revision: ClassVar[int] = 1

    count: int = 8
    split: str = "train"
    seed: int = 13

    def __post_init__(self) -> None:
        """Validate the number of demonstrations."""
        if self.count < 1:
            raise ConfigError(f"prompt.shots.count starts at 1 (prompt.shots=null shows none); received {self.count}.")

    def candidates(self, questions: Sequence[Question]) -> list[Question]:
        """Draw up to 32 candidates per demonstration, because not every question has a passage with its answer."""
        return random.Random(self.seed).sample(questions, min(len(questions), 32 * self.count))

    def draw(self, ranked: Iterable[tuple[Question, Sequence[Context]]]) -> tuple[Demonstration, ...]:
        """Build demonstrations from the first `count` + 1 questions that have a context with the answer.

        Each demonstration shows the best-ranked context with the answer.

        Args:
            ranked: Candidate questions with their contexts, best-ranked first.

        Raises:
            ConfigError: If there are fewer such questions.

        """
        demonstrations: list[Demonstration] = []
        for question, contexts in ranked:
            gold = next((context for context in contexts if context.rank and context.has_answer), None)
            if gold is not None and len(demonstrations) <= self.count:
                answer = shortest_contained_answer(gold.passage.text, question.answers)
                demonstrations.append(Demonstration(question.question_id, question.text, gold.passage, answer))
        if len(demonstrations) <= self.count:
            raise ConfigError(
                f"prompt.shots needs {self.count} demonstrations and one spare; of split {self.split!r} only "
                f"{len(demonstrations)} questions have a retrieved passage with their answer. Use fewer, or another split."
            )
        return tuple(demonstrations)
