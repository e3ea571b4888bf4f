"""Training examples of a reader: a question with passages as the prompt, the short answer or "unknown" as the reply."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.errors import ConfigError
from winnow.metrics.answer import UNKNOWN
from winnow.metrics.ranking import shortest_contained_answer
from winnow.records import Context, Message, Question
from winnow.targets import targets, writable_answers

_UNKNOWN_RANKS = 5
"""Number of best-ranked contexts without the answer from which an "unknown" example is drawn."""
Render = Callable[[Question, Sequence[Context]], tuple[Message, ...]]


@dataclass(frozen=True, slots=True)
class Example:
    """One training example: a chat prompt and the target reply."""

    example_id: str
    messages: tuple[Message, ...]
    completion: str


@dataclass(frozen=True, slots=True)
class Mix:
    """Maximum number of training examples of each kind.

    Attributes:
        answered: Examples with the best-ranked passage that contains the answer.
        unknown: Examples with a top-ranked passage that lacks the answer, and the reply "unknown".
        crowded: Examples with a passage that contains the answer among distractors, in random order.
        distractors: Number of distractors in a crowded example.
        retrieved: Examples with the first `depth` passages as retrieved. The reply is the answer, whether or not the
            passages contain it. This is the only kind that does not read `has_answer`.
        depth: Number of passages in a retrieved example.

    """

    revision: ClassVar[int] = 2

    answered: int = 250
    unknown: int = 50
    crowded: int = 10
    distractors: int = 2
    retrieved: int = 0
    depth: int = 1

    def __post_init__(self) -> None:
        """Validate the counts."""
        counts = (self.answered, self.unknown, self.crowded, self.distractors, self.retrieved)
        if min(counts) < 0 or self.depth < 1 or max(self.answered, self.retrieved) < 1:
            raise ConfigError(
                "training.mix needs counts of 0 or more, a depth of 1 or more, and at least one answered or retrieved pair; "
                f"received {self}."
            )


def build_examples(
    questions: Sequence[tuple[Question, Sequence[Context]]], mix: Mix, render: Render, seed: int
) -> list[Example]:
    """Draw the training examples in random order.

    `retrieved` examples are drawn from all questions that have an answer. The other kinds are drawn from the questions
    with contexts of both sorts: some that contain the answer, and some that do not.

    Args:
        questions: Training questions with their contexts, best-ranked first.
        mix: Number of examples of each kind.
        render: Function that builds the prompt.
        seed: Seed of the draw.

    """
    rng = random.Random(seed)
    candidates = [(q, [c for c in contexts if c.rank][: mix.depth]) for q, contexts in questions if targets(q)]
    sample = rng.sample(candidates, min(mix.retrieved, len(candidates)))
    examples = [_retrieved_example(q, contexts, render) for q, contexts in sample]
    if mix.answered or mix.unknown or mix.crowded:
        examples += _labelled_examples(questions, mix, render, rng)
    rng.shuffle(examples)
    return examples


def _labelled_examples(
    questions: Sequence[tuple[Question, Sequence[Context]]], mix: Mix, render: Render, rng: random.Random
) -> list[Example]:
    usable = [(q, cs) for q, cs in questions if any(c.has_answer for c in cs) and any(not c.has_answer for c in cs)]
    if not usable:
        raise ConfigError(
            "No training question has both a context with its answer and one without: check corpus and train split."
        )
    rng.shuffle(usable)
    cycle = usable * 2
    answered = usable[: mix.answered]
    unknown = cycle[len(answered) % len(usable) :][: min(mix.unknown, len(usable))]
    crowded = usable[-mix.crowded :] if mix.crowded else []
    examples = [_answered_example(q, c, render) for q, c in answered]
    examples += [_unknown_example(q, c, render, rng) for q, c in unknown]
    return examples + [_crowded_example(q, c, mix.distractors, render, rng) for q, c in crowded]


def _retrieved_example(question: Question, contexts: Sequence[Context], render: Render) -> Example:
    return Example(f"{question.question_id}/retrieved", render(question, contexts), targets(question)[0])


def _answered_example(question: Question, contexts: Sequence[Context], render: Render) -> Example:
    context = next(c for c in contexts if c.has_answer)
    return Example(
        f"{question.question_id}/answered",
        render(question, [context]),
        shortest_contained_answer(context.passage.text, writable_answers(question)),
    )


def _unknown_example(question: Question, contexts: Sequence[Context], render: Render, rng: random.Random) -> Example:
    negatives = [c for c in contexts if not c.has_answer][:_UNKNOWN_RANKS]
    return Example(f"{question.question_id}/unknown", render(question, [rng.choice(negatives)]), UNKNOWN)


def _crowded_example(
    question: Question, contexts: Sequence[Context], distractors: int, render: Render, rng: random.Random
) -> Example:
    context = next(c for c in contexts if c.has_answer)
    passages = [context, *[c for c in contexts if not c.has_answer][:distractors]]
    rng.shuffle(passages)
    return Example(
        f"{question.question_id}/crowded",
        render(question, passages),
        shortest_contained_answer(context.passage.text, writable_answers(question)),
    )
