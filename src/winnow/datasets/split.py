"""Assignment of questions to the train, dev and test splits."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class Split:
    """An assignment of questions to splits: at random, all to one split, or as given by the parser.

    Args:
        test: Number of test questions to draw.
        dev: Number of dev questions to draw. The remaining questions are the train split.
        seed: Seed of the random draw.
        all: Name of the split to which all questions belong, or empty to draw splits.
        given: Whether the parser has already assigned the splits, as for a folder of FiD files.
        shuffle: Whether to put the questions of `all` or `given` in random order, so that the
            limits of later stages, which take the first questions, draw a sample. A larger limit
            then contains the sample of a smaller one.
    """

    revision: ClassVar[int] = 1

    test: int = 0
    dev: int = 0
    seed: Annotated[int, Ge(0)] = 13
    all: str = ""
    given: bool = False
    shuffle: bool = False

    def __post_init__(self) -> None:
        num_kinds = bool(self.all) + bool(self.test or self.dev) + self.given
        if min(self.test, self.dev) < 0 or num_kinds > 1:
            raise ConfigError(
                "dataset.split needs either `test` and `dev` of at least 0 questions, or `all` "
                f"alone, or `given` alone; received {self}. dataset.split.all='' takes away the "
                "`all` of a YAML."
            )

    @property
    def names(self) -> list[str]:
        """Return the names of the splits, or an empty list if only the files know them."""
        if self.given:
            return []
        return (
            [self.all]
            if self.all
            else ["train", *(name for name in ("test", "dev") if getattr(self, name))]
        )

    def assign(self, questions: Iterable[Question]) -> Iterator[Question]:
        """Yield the questions with splits, shuffled if the splits are drawn or `shuffle` is set.

        Raises:
            ConfigError: If the questions have other splits already and `given` is not set, or if
                none is left to train on.
        """
        if not self.given:
            questions = self._check_unassigned(questions)
        if self.all or self.given:
            for question in self._shuffle(questions) if self.shuffle else questions:
                yield replace(question, split=self.all) if self.all else question
            return
        shuffled_questions = self._shuffle(questions)
        if len(shuffled_questions) <= self.test + self.dev:
            raise ConfigError(
                f"dataset.split: test={self.test} and dev={self.dev} leave no training question, "
                f"because the data set has only {len(shuffled_questions)} questions. Lower "
                "dataset.split.test or dataset.split.dev."
            )
        for index, question in enumerate(shuffled_questions):
            split = (
                "test" if index < self.test else "dev" if index < self.test + self.dev else "train"
            )
            yield replace(question, split=split)

    def _check_unassigned(self, questions: Iterable[Question]) -> Iterator[Question]:
        """Yield the questions; raise ConfigError at the first that already has another split."""
        for question in questions:
            if question.split not in ("", self.all):
                raise ConfigError(
                    f"dataset.split would replace the split {question.split!r} that the data set "
                    f"has for question {question.question_id!r}. Set dataset.split.all='' and "
                    "dataset.split.given=true to keep it."
                )
            yield question

    def _shuffle(self, questions: Iterable[Question]) -> list[Question]:
        """Return the questions in random order, which depends only on the seed and their ids."""
        shuffled_questions = sorted(questions, key=lambda question: question.question_id)
        random.Random(self.seed).shuffle(shuffled_questions)
        return shuffled_questions
