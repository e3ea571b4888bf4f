"""Builds the reader's training pairs: (question, passages) -> short answer, or "unknown" where they lack it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from winnow.errors import ConfigError
from winnow.metrics.ranking import shortest_held
from winnow.records import Context, Message, Question

Render = Callable[[Question, Sequence[Context]], tuple[Message, ...]]


@dataclass(frozen=True, slots=True)
class Example:
    """One training pair: a chat prompt and what the reader should reply."""

    example_id: str
    messages: tuple[Message, ...]
    completion: str


@dataclass(frozen=True, slots=True)
class Mix:
    """How many pairs of each kind to draw from the training questions (fewer if the data has fewer).

    `answered`: the best-ranked passage that has the answer. `unknown`: a passage of the top ranks that lacks it.
    `crowded`: the answer's passage among `distractors` others, in random order. `retrieved`: the first `depth` passages as
    they were retrieved, with the answer as the reply whether they have it or not; alone among the kinds it reads no label.
    """

    answered: int = 250
    unknown: int = 50
    crowded: int = 10
    distractors: int = 2
    retrieved: int = 0
    depth: int = 1

    def __post_init__(self) -> None:
        """Refuse a mix that teaches nothing."""
        counts = (self.answered, self.unknown, self.crowded, self.distractors, self.retrieved)
        if min(counts) < 0 or self.depth < 1 or max(self.answered, self.retrieved) < 1:
            raise ConfigError(
                "training.mix needs counts of 0 or more, a depth of 1 or more, and at least one answered or retrieved pair; "
                f"received {self}."
            )


def build_examples(
    questions: Sequence[tuple[Question, Sequence[Context]]], mix: Mix, render: Render, seed: int
) -> list[Example]:
    """Draw the mix; but for `retrieved` pairs, questions are left out of which no context, or each, has the answer."""
    rng = random.Random(seed)
    told = [(q, [x for x in c if x.rank][: mix.depth]) for q, c in questions if q.stated]
    examples = [_retrieved(q, c, render) for q, c in rng.sample(told, min(mix.retrieved, len(told)))]
    if mix.answered or mix.unknown or mix.crowded:
        examples += _labelled(questions, mix, render, rng)
    rng.shuffle(examples)
    return examples


def _labelled(
    questions: Sequence[tuple[Question, Sequence[Context]]], mix: Mix, render: Render, rng: random.Random
) -> list[Example]:
    usable = [(q, c) for q, c in questions if any(x.has_answer for x in c) and any(not x.has_answer for x in c)]
    if not usable:
        raise ConfigError("No training question has a context with its answer: check the corpus and the train split.")
    rng.shuffle(usable)
    pool = usable * 2
    answered = usable[: mix.answered]
    unknown = pool[len(answered) % len(usable) :][: min(mix.unknown, len(usable))]
    crowded = usable[-mix.crowded :] if mix.crowded else []
    examples = [_answered(q, c, render) for q, c in answered]
    examples += [_unknown(q, c, render, rng) for q, c in unknown]
    return examples + [_crowded(q, c, mix.distractors, render, rng) for q, c in crowded]


def _retrieved(question: Question, contexts: Sequence[Context], render: Render) -> Example:
    return Example(f"{question.question_id}/retrieved", render(question, contexts), question.stated[0])


def _answered(question: Question, contexts: Sequence[Context], render: Render) -> Example:
    gold = next(c for c in contexts if c.has_answer)
    return Example(
        f"{question.question_id}/answered", render(question, [gold]), shortest_held(gold.passage.text, question.answers)
    )


def _unknown(question: Question, contexts: Sequence[Context], render: Render, rng: random.Random) -> Example:
    lacking = [c for c in contexts if not c.has_answer][:5]
    return Example(f"{question.question_id}/unknown", render(question, [rng.choice(lacking)]), "unknown")


def _crowded(question: Question, contexts: Sequence[Context], others: int, render: Render, rng: random.Random) -> Example:
    gold = next(c for c in contexts if c.has_answer)
    shown = [gold, *[c for c in contexts if not c.has_answer][:others]]
    rng.shuffle(shown)
    return Example(
        f"{question.question_id}/crowded", render(question, shown), shortest_held(gold.passage.text, question.answers)
    )
