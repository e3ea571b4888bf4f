"""Builds the reader's training pairs: question and passages with the short answer, or "unknown" if they lack it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from winnow.errors import ConfigError
from winnow.metrics.ranking import shortest_contained_answer
from winnow.records import Context, Message, Question

_UNKNOWN_RANKS = 5
"""How many of the best-ranked contexts without the answer an "unknown" pair is drawn from."""
Render = Callable[[Question, Sequence[Context]], tuple[Message, ...]]


@dataclass(frozen=True, slots=True)
class Example:
    """One training pair: a chat prompt and the target reply."""

    example_id: str
    messages: tuple[Message, ...]
    completion: str


@dataclass(frozen=True, slots=True)
class Mix:
    """How many pairs of each kind are drawn from the training questions, at most.

    `answered`: the best-ranked passage that has the answer. `unknown`: a passage of the top ranks that lacks it.
    `crowded`: the answer's passage among `distractors` others, in random order. `retrieved`: the first `depth` passages as
    retrieved, with the answer as the reply whether they have it or not; the only kind that reads no label.
    """

    answered: int = 250
    unknown: int = 50
    crowded: int = 10
    distractors: int = 2
    retrieved: int = 0
    depth: int = 1

    def __post_init__(self) -> None:
        """Refuse an empty mix."""
        counts = (self.answered, self.unknown, self.crowded, self.distractors, self.retrieved)
        if min(counts) < 0 or self.depth < 1 or max(self.answered, self.retrieved) < 1:
            raise ConfigError(
                "training.mix needs counts of 0 or more, a depth of 1 or more, and at least one answered or retrieved pair; "
                f"received {self}."
            )


def build_examples(
    questions: Sequence[tuple[Question, Sequence[Context]]], mix: Mix, render: Render, seed: int
) -> list[Example]:
    """Draw the mix; except for `retrieved` pairs, skip questions where all or none of the contexts contain the answer."""
    rng = random.Random(seed)
    candidates = [(q, [c for c in contexts if c.rank][: mix.depth]) for q, contexts in questions if q.nonblank_answers]
    drawn = rng.sample(candidates, min(mix.retrieved, len(candidates)))
    examples = [_retrieved(q, contexts, render) for q, contexts in drawn]
    if mix.answered or mix.unknown or mix.crowded:
        examples += _labelled(questions, mix, render, rng)
    rng.shuffle(examples)
    return examples


def _labelled(
    questions: Sequence[tuple[Question, Sequence[Context]]], mix: Mix, render: Render, rng: random.Random
) -> list[Example]:
    usable = [(q, c) for q, c in questions if any(x.has_answer for x in c) and any(not x.has_answer for x in c)]
    if not usable:
        raise ConfigError(
            "No training question has both a context with its answer and one without: check corpus and train split."
        )
    rng.shuffle(usable)
    pool = usable * 2
    answered = usable[: mix.answered]
    unknown = pool[len(answered) % len(usable) :][: min(mix.unknown, len(usable))]
    crowded = usable[-mix.crowded :] if mix.crowded else []
    examples = [_answered(q, c, render) for q, c in answered]
    examples += [_unknown(q, c, render, rng) for q, c in unknown]
    return examples + [_crowded(q, c, mix.distractors, render, rng) for q, c in crowded]


def _retrieved(question: Question, contexts: Sequence[Context], render: Render) -> Example:
    return Example(f"{question.question_id}/retrieved", render(question, contexts), question.nonblank_answers[0])


def _answered(question: Question, contexts: Sequence[Context], render: Render) -> Example:
    gold = next(c for c in contexts if c.has_answer)
    return Example(
        f"{question.question_id}/answered",
        render(question, [gold]),
        shortest_contained_answer(gold.passage.text, question.answers),
    )


def _unknown(question: Question, contexts: Sequence[Context], render: Render, rng: random.Random) -> Example:
    lacking = [c for c in contexts if not c.has_answer][:_UNKNOWN_RANKS]
    return Example(f"{question.question_id}/unknown", render(question, [rng.choice(lacking)]), "unknown")


def _crowded(question: Question, contexts: Sequence[Context], others: int, render: Render, rng: random.Random) -> Example:
    gold = next(c for c in contexts if c.has_answer)
    passages = [gold, *[c for c in contexts if not c.has_answer][:others]]
    rng.shuffle(passages)
    return Example(
        f"{question.question_id}/crowded",
        render(question, passages),
        shortest_contained_answer(gold.passage.text, question.answers),
    )
