"""A synthetic world of templated facts, small enough to prove a method from random weights in minutes.

Each person has one value per relation, and each passage states one of them. A question's contexts are one passage that
answers it and distractors: passages with other facts of the same person, and passages with the same relation of other
people, so that neither the name nor the topic alone decides which is relevant. Test people do not occur in training.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    """How large the world is; `contexts` a question, one of them relevant."""

    train: int = 4000
    dev: int = 100
    test: int = 300
    contexts: int = 10
    values: int = 24
    first_names: int = 40
    last_names: int = 40
    seed: int = 13

    def __post_init__(self) -> None:
        """Refuse a world without distractors, or with fewer people than questions need."""
        if self.contexts < 3 or min(self.train, self.dev, self.test) < 1 or self.values < 2:
            raise ConfigError(f"facts: contexts starts at 3, values at 2, each split at 1; received {self}.")
        if self.first_names * self.last_names < 40:
            raise ConfigError(f"facts: first_names times last_names must be at least 40 people; received {self}.")


@dataclass(frozen=True, slots=True)
class Case:
    """A question with its contexts in random order, all with the score 0."""

    question: Question
    contexts: tuple[Context, ...]


@dataclass(frozen=True, slots=True)
class Cloze:
    """A fact with its value masked, as a question, and the passage that contains it."""

    question: str
    passage: Passage
    answer: str


class Facts:
    """The world of one seed."""

    def __init__(self, settings: FactsSettings) -> None:
        """Draw names, values and each person's facts."""
        self.settings = settings
        self.rng = random.Random(settings.seed)
        words = self._words(len(RELATIONS) * settings.values + settings.first_names + settings.last_names)
        self.values = {relation: [next(words) for _ in range(settings.values)] for relation in RELATIONS}
        firsts = [next(words) for _ in range(settings.first_names)]
        lasts = [next(words) for _ in range(settings.last_names)]
        people = [f"{first} {last}" for first in firsts for last in lasts]
        self.rng.shuffle(people)
        held_out = max(10, len(people) // 5)
        self.people = {"train": people[2 * held_out :], "dev": people[:held_out], "test": people[held_out : 2 * held_out]}
        self.facts = {name: {r: self.rng.choice(self.values[r]) for r in RELATIONS} for name in people}

    def _words(self, count: int) -> Iterator[str]:
        names = [a + b + c + d for a in _ONSETS for b in _RIMES for c in _ONSETS for d in _RIMES]
        self.rng.shuffle(names)
        return iter(names[:count])

    def split(self, name: str) -> Iterator[Case]:
        """Yield a split's questions with their contexts."""
        people = self.people[name]
        for number in range(getattr(self.settings, name)):
            person, relation = people[number % len(people)], self.rng.choice(list(RELATIONS))
            yield self._case(f"{name}-{number}", person, relation, people)

    def cloze(self, count: int) -> Iterator[Cloze]:
        """Yield masked facts of the training people with their passages, for a warm-up that knows of no question."""
        people = self.people["train"]
        for number in range(count):
            person, relation = self.rng.choice(people), self.rng.choice(list(RELATIONS))
            passage = self._passage(f"cloze-{number}", person, relation, people)
            fact = RELATIONS[relation][0].format(name=person, value="<mask>")
            yield Cloze(fact, passage, self.facts[person][relation])

    def texts(self) -> list[str]:
        """Return texts that contain every word of the world, for a tokenizer."""
        values = [" ".join(values) for values in self.values.values()]
        forms = [form.format(name="", value="") for pair in RELATIONS.values() for form in pair]
        return [*values, *forms, *self.facts, "question: title: context: true false"]

    def _case(self, name: str, person: str, relation: str, people: Sequence[str]) -> Case:
        answer = self.facts[person][relation]
        passages = [self._passage(f"{name}-0", person, relation, people)]
        others = [r for r in RELATIONS if r != relation]
        for n in range(1, self.settings.contexts):
            same_person = n % 2 == 1  # odd: other facts of this person; even: this relation of another
            subject = person if same_person else self._other(people, person)
            passages.append(
                self._passage(f"{name}-{n}", subject, self.rng.choice(others) if same_person else relation, people, answer)
            )
        self.rng.shuffle(passages)
        contexts = tuple(
            Context(passage, rank, 0.0, answer in passage.text.split()) for rank, passage in enumerate(passages, start=1)
        )
        wording = RELATIONS[relation][1].format(name=person)
        return Case(Question(name, wording, (answer,)), contexts)

    def _passage(self, name: str, person: str, relation: str, people: Sequence[str], excluded_value: str = "") -> Passage:
        """Return a fact of this person; of another person where this one has the excluded value."""
        while self.facts[person][relation] == excluded_value:
            person = self._other(people, person)
        return Passage(name, "facts", RELATIONS[relation][0].format(name=person, value=self.facts[person][relation]))

    def _other(self, people: Sequence[str], person: str) -> str:
        return self.rng.choice([name for name in self.rng.sample(people, 2) if name != person])
