"""A synthetic world of facts, small enough to train a model from random weights in minutes.

A fact is a person, a relation and a value, such as a person and the instrument that this person
plays. Each person has one value per relation, and each passage states one fact by a template. The
contexts of a question are one relevant passage and several distractors, which are other facts about
the same person or the same relation of other people. Therefore, neither the name nor the relation
alone identifies the relevant passage. The splits have no people in common.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

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
"""Templates of each relation: the sentence of a passage, and the question."""
_ONSETS = list("bdfgklmnprstvz")
_RIMES = [*"aeiou", "ar", "el", "in", "or", "un"]


@dataclass(frozen=True, slots=True)
class FactsSettings:
    """Size and seed of a world of facts.

    Attributes:
        train: Number of training questions.
        dev: Number of development questions.
        test: Number of test questions.
        contexts: Number of contexts per question, one of which is relevant.
        values: Number of possible values of each relation.
        first_names: Number of first names.
        last_names: Number of last names. Each pair of a first and a last name is a person.
        seed: Seed of all random choices.
    """

    revision: ClassVar[int] = 1

    train: int = 4000
    dev: int = 100
    test: int = 300
    contexts: int = 10
    values: int = 24
    first_names: int = 40
    last_names: int = 40
    seed: Annotated[int, Ge(0)] = 13

    def __post_init__(self) -> None:
        if self.contexts < 3 or min(self.train, self.dev, self.test) < 1 or self.values < 2:
            raise ConfigError(
                "facts.world needs at least 3 contexts per question, 2 values per relation, and 1 "
                f"question in each of train, dev and test; received {self}."
            )
        if self.first_names * self.last_names < 40:
            raise ConfigError(
                "facts.world needs first_names times last_names to be at least 40 people; "
                f"received {self}."
            )
        num_words = len(RELATIONS) * self.values + self.first_names + self.last_names
        if num_words > (max_words := (len(_ONSETS) * len(_RIMES)) ** 2):
            raise ConfigError(
                f"facts.world needs {num_words} distinct words for its names and values, and there "
                f"are {max_words}; received {self}."
            )


@dataclass(frozen=True, slots=True)
class Case:
    """A question with its contexts.

    Attributes:
        question: Question with its only accepted answer.
        contexts: Contexts in random order, all of which have the retriever score 0.
    """

    question: Question
    contexts: tuple[Context, ...]


@dataclass(frozen=True, slots=True)
class Cloze:
    """A cloze question, which is a fact whose value is masked.

    Attributes:
        question: Sentence of the fact with the token "<mask>" instead of the value.
        passage: Passage that states the fact.
        answer: Masked value.
    """

    question: str
    passage: Passage
    answer: str


class Facts:
    """A world of people and their facts, which is generated from a seed.

    Attributes:
        settings: Size and seed of the world.
        rng: Random number generator from which all questions are drawn.
        values: Possible values of each relation.
        people: Names of the people of each split.
        facts: Value of each relation, by the name of the person.
    """

    def __init__(self, settings: FactsSettings) -> None:
        """Draw the names, the values, and the facts of every person."""
        self.settings = settings
        self.rng = random.Random(settings.seed)
        words = self._draw_words(
            len(RELATIONS) * settings.values + settings.first_names + settings.last_names
        )
        self.values = {
            relation: [next(words) for _ in range(settings.values)] for relation in RELATIONS
        }
        first_names = [next(words) for _ in range(settings.first_names)]
        last_names = [next(words) for _ in range(settings.last_names)]
        people = [f"{first} {last}" for first in first_names for last in last_names]
        self.rng.shuffle(people)
        num_held_out = max(10, len(people) // 5)
        self.people = {
            "train": people[2 * num_held_out :],
            "dev": people[:num_held_out],
            "test": people[num_held_out : 2 * num_held_out],
        }
        self.facts = {
            name: {relation: self.rng.choice(self.values[relation]) for relation in RELATIONS}
            for name in people
        }

    def _draw_words(self, num_words: int) -> Iterator[str]:
        """Draw distinct words of two syllables."""
        syllables = [onset + rime for onset in _ONSETS for rime in _RIMES]
        words = [first + second for first in syllables for second in syllables]
        self.rng.shuffle(words)
        return iter(words[:num_words])

    def generate_cases(self, name: str) -> Iterator[Case]:
        """Generate the questions of a split with their contexts.

        Args:
            name: Name of the split, "train", "dev" or "test".
        """
        people = self.people[name]
        for index in range(getattr(self.settings, name)):
            person, relation = people[index % len(people)], self.rng.choice(list(RELATIONS))
            yield self._generate_case(f"{name}-{index}", person, relation, people)

    def generate_clozes(self, count: int) -> Iterator[Cloze]:
        """Generate cloze questions about the people of the training split, to pretrain a model.

        Args:
            count: Number of cloze questions.
        """
        people = self.people["train"]
        for index in range(count):
            person, relation = self.rng.choice(people), self.rng.choice(list(RELATIONS))
            passage = self._build_passage(f"cloze-{index}", person, relation, people)
            masked_fact = RELATIONS[relation][0].format(name=person, value="<mask>")
            yield Cloze(masked_fact, passage, self.facts[person][relation])

    def list_vocabulary_texts(self) -> list[str]:
        """Return texts with every word of the world, to build the vocabulary of a tokenizer."""
        values = [" ".join(values) for values in self.values.values()]
        phrases = [
            template.format(name="", value="")
            for templates in RELATIONS.values()
            for template in templates
        ]
        return [*values, *phrases, *self.facts, "question: title: context: true false"]

    def _generate_case(
        self, question_id: str, person: str, relation: str, people: Sequence[str]
    ) -> Case:
        """Generate a question about one fact of a person, with a relevant passage and distractors.

        Args:
            question_id: Id of the question.
            person: Person that the question is about.
            relation: Relation that the question is about.
            people: People of the split, from whom the distractors are drawn.
        """
        answer = self.facts[person][relation]
        passages = [self._build_passage(f"{question_id}-0", person, relation, people)]
        other_relations = [other for other in RELATIONS if other != relation]
        for index in range(1, self.settings.contexts):
            # Distractors with an odd index state another fact of this person, the others this
            # relation of another person.
            is_same_person = index % 2 == 1
            subject = person if is_same_person else self._draw_other_person(people, person)
            passage_relation = self.rng.choice(other_relations) if is_same_person else relation
            passages.append(
                self._build_passage(
                    f"{question_id}-{index}", subject, passage_relation, people, answer
                )
            )
        self.rng.shuffle(passages)
        contexts = tuple(
            Context(passage, rank, 0.0, answer in passage.text.split())
            for rank, passage in enumerate(passages, start=1)
        )
        text = RELATIONS[relation][1].format(name=person)
        return Case(Question(question_id, text, (answer,)), contexts)

    def _build_passage(
        self,
        passage_id: str,
        person: str,
        relation: str,
        people: Sequence[str],
        excluded_value: str = "",
    ) -> Passage:
        """Build a passage that states a fact of the person.

        If the value of the fact is `excluded_value`, which is the answer to the question, the
        passage is about another person.
        """
        if self.facts[person][relation] == excluded_value and all(
            self.facts[one][relation] == excluded_value for one in people
        ):
            raise ConfigError(
                f"facts.world: all {len(people)} people of a split have the same {relation}, so "
                "that no passage states another one. Raise facts.world.values or first_names, or "
                f"choose another seed; received {self.settings}."
            )
        while self.facts[person][relation] == excluded_value:
            person = self._draw_other_person(people, person)
        text = RELATIONS[relation][0].format(name=person, value=self.facts[person][relation])
        return Passage(passage_id, "facts", text)

    def _draw_other_person(self, people: Sequence[str], person: str) -> str:
        """Draw a person other than the given one."""
        return self.rng.choice([name for name in self.rng.sample(people, 2) if name != person])
