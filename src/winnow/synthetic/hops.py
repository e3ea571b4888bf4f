"""A synthetic world of chained facts, in which each question needs a known number of retrievals.

A question names a person and asks for something that one, two or three facts away: the town of the
person, the river of the town, the lake of the river. Each fact is a passage of its own, and only
the person's names what the question names. A strategy that retrieves once finds the first fact; one
that searches for what it found finds one more in each round.
"""

import random
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.records import Passage, Question

LINKS = ("{name} lives in {value}.", "{name} lies on the {value}.", "The {name} ends in {value}.")
"""Sentence of the passage of each fact: a person's town, a town's river, a river's lake."""
QUESTIONS = (
    "In which town does {name} live?",
    "Which river flows by the town in which {name} lives?",
    "Which lake takes the river that flows by the town in which {name} lives?",
)
"""Question that each number of facts answers."""
_ONSETS, _VOWELS, _CODAS = "bdfgklmnprstvz", "aeiou", "lnrs"
_MOST_QUESTIONS = (len(_ONSETS) * len(_VOWELS)) ** 2 * len(_CODAS) // (len(LINKS) + 1)


@dataclass(frozen=True, slots=True)
class HopsSettings:
    """Size and seed of a world of hops.

    Attributes:
        questions: Number of questions of each number of hops.
        hops: Numbers of hops, from 1 to 3.
        seed: Seed of the names.
    """

    revision: ClassVar[int] = 1

    questions: Annotated[int, Ge(1)] = 50
    hops: tuple[int, ...] = (2, 3)
    seed: Annotated[int, Ge(0)] = 13

    def __post_init__(self) -> None:
        if (
            self.questions < 1
            or not self.hops
            or not set(self.hops) <= set(range(1, len(LINKS) + 1))
        ):
            raise ConfigError(
                f"A world of hops needs questions of 1 to {len(LINKS)} hops; received {self}."
            )
        if len(set(self.hops)) < len(self.hops):
            raise ConfigError(f"A world of hops names each number of hops once; received {self}.")
        if self.questions * len(self.hops) > _MOST_QUESTIONS:
            raise ConfigError(
                f"A world of hops has names for {_MOST_QUESTIONS} questions; received {self}."
            )


@dataclass(frozen=True, slots=True)
class HopsWorld:
    """Passages and questions, whose `gold_passage_ids` are the passages of their path, in order."""

    passages: tuple[Passage, ...]
    questions: tuple[Question, ...]


def build_hops(settings: HopsSettings) -> HopsWorld:
    """Build a world in which no two questions share a person, a town, a river or a lake."""
    rng = random.Random(settings.seed)
    syllables = [onset + vowel for onset in _ONSETS for vowel in _VOWELS]
    words = [
        first + second + last for first in syllables for second in syllables for last in _CODAS
    ]
    names = iter(word.title() for word in rng.sample(words, len(words)))
    passages: list[Passage] = []
    questions: list[Question] = []
    for hops in settings.hops:
        for index in range(settings.questions):
            path = [next(names) for _ in range(len(LINKS) + 1)]
            ids = [f"{hops}-{index}-{number}" for number in range(len(LINKS))]
            passages += [
                Passage(id_, "", link.format(name=path[number], value=path[number + 1]))
                for number, (id_, link) in enumerate(zip(ids, LINKS, strict=True))
            ]
            text = QUESTIONS[hops - 1].format(name=path[0])
            questions.append(
                Question(f"{hops}-{index}", text, (path[hops],), tuple(ids[:hops]), split="test")
            )
    rng.shuffle(passages)
    return HopsWorld(tuple(passages), tuple(questions))
