"""Assignment of questions to the train, dev and test splits."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from winnow.errors import ConfigError
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class Split:
    """Assigns questions to splits: at random, all to one split, or as given by the parser.

    Args:
        test: Number of test questions to draw.
        dev: Number of dev questions to draw. The remaining questions are the train split.
        seed: Seed of the draw.
        all: Split of all questions, for a data set that is a single split.
        given: Whether the parser has assigned the splits, as for a folder of FiD files.

    """

    revision: ClassVar[int] = 1

    test: int = 0
    dev: int = 0
    seed: int = 13
    all: str = ""
    given: bool = False

    def __post_init__(self) -> None:
        """Validate the sizes, and that only one kind of assignment is set."""
        if min(self.test, self.dev) < 0 or bool(self.all) + bool(self.test or self.dev) + self.given > 1:
            raise ConfigError(f"dataset.split needs sizes of 0 or more, or `all` alone, or `given` alone; received {self}.")

    def assign(self, questions: Iterable[Question]) -> Iterator[Question]:
        """Yield the questions with their split, in random order if the splits are drawn."""
        if self.given:
            yield from questions
            return
        if self.all:
            yield from (replace(question, split=self.all) for question in questions)
            return
        shuffled = sorted(questions, key=lambda question: question.question_id)
        if len(shuffled) <= self.test + self.dev:
            raise ConfigError(f"test ({self.test}) and dev ({self.dev}) leave no training question of {len(shuffled)}.")
        random.Random(self.seed).shuffle(shuffled)
        for number, question in enumerate(shuffled):
            split = "test" if number < self.test else "dev" if number < self.test + self.dev else "train"
            yield replace(question, split=split)
