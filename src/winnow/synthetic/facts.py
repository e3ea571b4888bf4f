"""A synthetic world of facts from templates, small enough to validate a method from random weights in minutes.

Each person has one value per relation, and each passage states one such fact. The contexts of a question are one relevant
passage and several distractors: other facts about the same person, and the same relation of other people. Neither the
name nor the relation alone therefore identifies the relevant passage. The people of the splits are disjoint.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.errors import ConfigError
from winnow.records import Context, Passage, Question

RELATIONS = {
    "instrument": ("{name} plays the {value}", "which instrument does {name} play"),
    "town": ("{name} lives in {value}", "where does {name} live"),
    "drink": ("the favourite drink of {name} is {value}", "what does {name} like to drink"),
    "trade": ("{name} earns a living as a {value}", "what is the profession of {name}"),
    "animal": ("at home {name} keeps a {value}", "which pet does {name} have"),
    "colour": ("{name} always wears {value}", "what colour are the clothes of {name}"),
}
_ONSETS = list("bdfgklmnprstvz")
_RIMES = [*"aeiou", "ar", "el", "in", "or", "un"]


@dataclass(frozen=True, slots=True)
class FactsSettings:
    """Size of the world.

    Attributes:
        train: Number of training questions.
        dev: Number of development questions.
        test: Number of test questions.
        contexts: Contexts per question, one of which is relevant.
        values: Number of possible values of each relation.
        first_names: Number of first names.
        last_names: Number of last names; each pair of a first and a last name is a person.
        seed: Seed of the world.

    """

    revision: ClassVar[int] = 1

    train: int = 4000
    dev: int = 100
    test: int = 300
    contexts: int = 10
    values: int = 24
    first_names: int = 40
    last_names: int = 40
    seed: int = 13

    def __post_init__(self) -> None:
        """Validate that there are distractors of both kinds, and enough people."""
        if self.contexts < 3 or min(self.train, self.dev, self.test) < 1 or self.values < 2:
            raise ConfigError(f"facts: contexts starts at 3, values at 2, each split at 1; received {self}.")
        if self.first_names * self.last_names < 40:
            raise ConfigError(f"facts: first_names times last_names must be at least 40 people; received {self}.")


@dataclass(frozen=True, slots=True)
class Case:
    """A question with its contexts in random order. All contexts have the score 0."""

    question: Question
    contexts: tuple[Context, ...]


@dataclass(frozen=True, slots=True)
class Cloze:
    """A fact with its value masked, as a question, with the passage that states it and the masked value as the answer."""

    question: str
    passage: Passage
    answer: str


class Facts:
    """A world of people and their facts, generated from a seed."""

    def __init__(self, settings: FactsSettings) -> None:
        """Draw the names, the values, and the facts of every person."""
        self.settings = settings
        self.rng = random.Random(settings.seed)
        words = self._words(len(RELATIONS) * settings.values + settings.first_names + settings.last_names)
        self.values = {relation: [next(words) for _ in range(settings.values)] for relation in RELATIONS}
        first_names = [next(words) for _ in range(settings.first_names)]
        last_names = [next(words) for _ in range(settings.last_names)]
        people = [f"{first} {last}" for first in first_names for last in last_names]
        self.rng.shuffle(people)
        held_out = max(10, len(people) // 5)
        self.people = {"train": people[2 * held_out :], "dev": people[:held_out], "test": people[held_out : 2 * held_out]}
        self.facts = {name: {r: self.rng.choice(self.values[r]) for r in RELATIONS} for name in people}

    def _words(self, count: int) -> Iterator[str]:
        """Draw distinct words of two syllables."""
        words = [a + b + c + d for a in _ONSETS for b in _RIMES for c in _ONSETS for d in _RIMES]
        self.rng.shuffle(words)
        return iter(words[:count])

    def split(self, name: str) -> Iterator[Case]:
        """Generate the questions of a split with their contexts."""
        people = self.people[name]
        for number in range(getattr(self.settings, name)):
            person, relation = people[number % len(people)], self.rng.choice(list(RELATIONS))
            yield self._case(f"{name}-{number}", person, relation, people)

    def cloze(self, count: int) -> Iterator[Cloze]:
        """Generate masked facts of the training people with their passages, for a warm-up without questions."""
        people = self.people["train"]
        for number in range(count):
            person, relation = self.rng.choice(people), self.rng.choice(list(RELATIONS))
            passage = self._passage(f"cloze-{number}", person, relation, people)
            fact = RELATIONS[relation][0].format(name=person, value="<mask>")
            yield Cloze(fact, passage, self.facts[person][relation])

    def texts(self) -> list[str]:
        """Return texts that together contain every word of the world, to build a tokenizer's vocabulary."""
        values = [" ".join(values) for values in self.values.values()]
        phrases = [template.format(name="", value="") for templates in RELATIONS.values() for template in templates]
        return [*values, *phrases, *self.facts, "question: title: context: true false"]

    def _case(self, question_id: str, person: str, relation: str, people: Sequence[str]) -> Case:
        """Generate a question about a person's relation, with its relevant passage and distractors."""
        answer = self.facts[person][relation]
        passages = [self._passage(f"{question_id}-0", person, relation, people)]
        other_relations = [other for other in RELATIONS if other != relation]
        for n in range(1, self.settings.contexts):
            same_person = n % 2 == 1  # odd: another fact of this person; even: this relation of another person
            subject = person if same_person else self._other_person(people, person)
            passage_relation = self.rng.choice(other_relations) if same_person else relation
            passages.append(self._passage(f"{question_id}-{n}", subject, passage_relation, people, answer))
        self.rng.shuffle(passages)
        contexts = tuple(
            Context(passage, rank, 0.0, answer in passage.text.split()) for rank, passage in enumerate(passages, start=1)
        )
        text = RELATIONS[relation][1].format(name=person)
        return Case(Question(question_id, text, (answer,)), contexts)

    def _passage(
        self, passage_id: str, person: str, relation: str, people: Sequence[str], excluded_value: str = ""
    ) -> Passage:
        """Build a passage with a fact of the person, or of another person if the value of this one is excluded."""
        while self.facts[person][relation] == excluded_value:
            person = self._other_person(people, person)
        return Passage(passage_id, "facts", RELATIONS[relation][0].format(name=person, value=self.facts[person][relation]))

    def _other_person(self, people: Sequence[str], person: str) -> str:
        return self.rng.choice([name for name in self.rng.sample(people, 2) if name != person])
