"""Few-shot demonstrations: questions of the training split with a passage that answers them (RE-RAG, tables 9 and 10)."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from winnow.errors import ConfigError
from winnow.metrics.ranking import shortest_contained_answer
from winnow.records import Context, Passage, Question


@dataclass(frozen=True, slots=True)
class Demonstration:
    """An example of a question with a passage and its answer."""

    question_id: str
    question: str
    passage: Passage
    answer: str


@dataclass(frozen=True, slots=True)
class Shots:
    """How many demonstrations a prompt has, from which split, drawn by which seed.

    The paper draws 8 for Natural Questions and 2 for TriviaQA. All questions see the same ones; one more is drawn as a
    replacement for a question that is itself among them.
    """

    count: int = 8
    split: str = "train"
    seed: int = 13

    def __post_init__(self) -> None:
        """Refuse fewer than one demonstration."""
        if self.count < 1:
            raise ConfigError(f"prompt.shots.count starts at 1 (prompt.shots=null shows none); received {self.count}.")

    def candidates(self, questions: Sequence[Question]) -> list[Question]:
        """Return more questions than needed, in the order in which they are tried."""
        return random.Random(self.seed).sample(questions, min(len(questions), 32 * self.count))

    def draw(self, ranked: Iterable[tuple[Question, Sequence[Context]]]) -> tuple[Demonstration, ...]:
        """Return the first `count` + 1 questions of which a context has the answer, each with its best-ranked such context.

        Raises:
            ConfigError: if there are fewer.

        """
        drawn: list[Demonstration] = []
        for question, contexts in ranked:
            gold = next((context for context in contexts if context.rank and context.has_answer), None)
            if gold is not None and len(drawn) <= self.count:
                answer = shortest_contained_answer(gold.passage.text, question.answers)
                drawn.append(Demonstration(question.question_id, question.text, gold.passage, answer))
        if len(drawn) <= self.count:
            raise ConfigError(
                f"prompt.shots needs {self.count} demonstrations and one spare; of split {self.split!r} only "
                f"{len(drawn)} questions have a retrieved passage with their answer. Use fewer, or another split."
            )
        return tuple(drawn)
