"""Train, dev and test by a seed."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from winnow.errors import ConfigError
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class Split:
    """Draws `test` and `dev` questions at random; the others are train.

    A data set that is one split has `all` set; one whose parser knows its splits (a folder of FiD files) has `given`.
    """

    test: int = 0
    dev: int = 0
    seed: int = 13
    all: str = ""
    given: bool = False

    def __post_init__(self) -> None:
        """Refuse contradictory splits."""
        if min(self.test, self.dev) < 0 or bool(self.all) + bool(self.test or self.dev) + self.given > 1:
            raise ConfigError(f"dataset.split needs sizes of 0 or more, or `all` alone, or `given` alone; received {self}.")

    def assign(self, questions: Iterable[Question]) -> Iterator[Question]:
        """Yield the questions with their split; in a random order of the seed, unless all are one split."""
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
            name = "test" if number < self.test else "dev" if number < self.test + self.dev else "train"
            yield replace(question, split=name)
