"""Training examples for the supervised fine-tuning of a reader.

The prompt of an example is a question with one or more passages. Its reply is the short answer or
"unknown".
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from winnow.contexts.gold import is_relevant
from winnow.errors import ConfigError
from winnow.records import Context, Passage, Question
from winnow.requests import Message
from winnow.strategies.prompt import Prompt
from winnow.targets import require_targets, select_targets, select_writable_answers
from winnow.text.containment import find_shortest_answer
from winnow.text.normalization import UNKNOWN

_UNKNOWN_RANKS = 5
"""Number of best-ranked irrelevant contexts from which a negative example's passage is drawn."""

Render = Callable[[Question, Sequence[Context]], tuple[Message, ...]]
"""Function that builds the chat prompt of a question with its contexts."""


@dataclass(frozen=True, slots=True)
class Example:
    """A chat prompt with the reply that the reader learns.

    Attributes:
        example_id: Id of the question and kind of the example, such as "q1/answered".
        messages: Messages of the prompt.
        completion: Reply that follows the prompt.
        passages: Passages in the prompt, whose control tokens are text.
    """

    example_id: str
    messages: tuple[Message, ...]
    completion: str
    passages: tuple[Passage, ...] = ()


@dataclass(frozen=True, slots=True)
class Mix:
    """Maximum number of training examples of each kind.

    Attributes:
        answered: Number of examples with the best-ranked passage that contains the answer.
        unknown: Number of examples with an irrelevant top-ranked passage, and the reply
            "unknown".
        crowded: Number of examples with a passage that contains the answer and some distractors, in
            random order. A distractor is an irrelevant retrieved passage.
        distractors: Maximum number of distractors in a crowded example.
        retrieved: Number of examples with the first `depth` passages in retrieved order. The reply
            is the answer, whether or not the passages contain it. This is the only kind that does
            not read `has_answer`.
        depth: Number of passages in a retrieved example.
    """

    revision: ClassVar[int] = 4
    new_tokens: ClassVar[tuple[str, ...]] = ()

    answered: int = 250
    unknown: int = 50
    crowded: int = 10
    distractors: int = 2
    retrieved: int = 0
    depth: int = 1

    def __post_init__(self) -> None:
        counts = (self.answered, self.unknown, self.crowded, self.distractors, self.retrieved)
        if min(counts) < 0 or self.depth < 1 or max(self.answered, self.retrieved) < 1:
            raise ConfigError(
                "The counts in training.mix must be at least 0, its depth must be at least 1, and "
                f"it must ask for at least one answered or retrieved example; received {self}."
            )

    def build_examples(
        self, questions: Sequence[tuple[Question, Sequence[Context]]], prompt: Prompt, seed: int
    ) -> list[Example]:
        """Draw examples whose prompts `prompt` renders; see the function of the same name."""
        return build_examples(questions, self, prompt.render, seed)


class ExampleMix(Protocol):
    """Draws training examples of some kinds."""

    new_tokens: ClassVar[tuple[str, ...]]
    """Special tokens that the replies need and the tokenizer of the base model may lack."""

    def build_examples(
        self, questions: Sequence[tuple[Question, Sequence[Context]]], prompt: Prompt, seed: int
    ) -> list[Example]:
        """Draw examples from training questions with their contexts, best-ranked first."""
        ...


def build_examples(
    questions: Sequence[tuple[Question, Sequence[Context]]], mix: Mix, render: Render, seed: int
) -> list[Example]:
    """Draw training examples from the questions and return them in random order.

    "Retrieved" examples are drawn from all questions with an answer and a retrieved passage. The
    other kinds are drawn from the questions that have both a context with the answer and a context
    without it.

    Args:
        questions: Training questions with their contexts, best-ranked first.
        mix: Maximum number of examples of each kind.
        render: Function that builds the prompt.
        seed: Seed of the random choices.

    Raises:
        ConfigError: If `mix` asks for other kinds than "retrieved", and no question has contexts of
            both sorts.
    """
    rng = random.Random(seed)
    candidates = []
    for question, contexts in questions:
        if select_targets(question):
            retrieved_contexts = [context for context in contexts if context.rank]
            if retrieved_contexts:
                candidates.append((question, retrieved_contexts[: mix.depth]))
    sample = rng.sample(candidates, min(mix.retrieved, len(candidates)))
    examples = [
        _build_example("retrieved", question, contexts, require_targets(question)[0], render)
        for question, contexts in sample
    ]
    if mix.answered or mix.unknown or mix.crowded:
        examples += _build_labeled_examples(questions, mix, render, rng)
    rng.shuffle(examples)
    return examples


def _build_labeled_examples(
    questions: Sequence[tuple[Question, Sequence[Context]]],
    mix: Mix,
    render: Render,
    rng: random.Random,
) -> list[Example]:
    """Build the labeled examples; "unknown" ones start with questions not used as "answered"."""
    usable = select_contrasted(questions)
    rng.shuffle(usable)
    repeated = usable * 2
    answered_questions = usable[: mix.answered]
    unknown = repeated[len(answered_questions) % len(usable) :][: min(mix.unknown, len(usable))]
    crowded = usable[-mix.crowded :] if mix.crowded else []
    examples = []
    for question, contexts in answered_questions:
        context = find_answer_context(contexts)
        reply = select_reply(question, context)
        examples.append(_build_example("answered", question, [context], reply, render))
    for question, contexts in unknown:
        negative = draw_negative(contexts, rng)
        examples.append(_build_example("unknown", question, [negative], UNKNOWN, render))
    for question, contexts in crowded:
        context = find_answer_context(contexts)
        shown_contexts = [context, *_list_irrelevant(contexts)[: mix.distractors]]
        rng.shuffle(shown_contexts)
        reply = select_reply(question, context)
        examples.append(_build_example("crowded", question, shown_contexts, reply, render))
    return examples


def select_contrasted(
    questions: Sequence[tuple[Question, Sequence[Context]]],
) -> list[tuple[Question, Sequence[Context]]]:
    """Return the questions that have both a context with the answer and an irrelevant one; raise
    ConfigError if none has.
    """
    contrasted_questions = [
        (question, contexts)
        for question, contexts in questions
        if any(context.has_answer for context in contexts) and not all(map(is_relevant, contexts))
    ]
    if not contrasted_questions:
        raise ConfigError(
            "No training question has both a context with its answer and an irrelevant one. "
            "Check the corpus and the training split."
        )
    return contrasted_questions


def find_answer_context(contexts: Sequence[Context]) -> Context:
    """Return the best-ranked context that contains the answer, of contexts of which one does."""
    return next(context for context in contexts if context.has_answer)


def draw_negative(contexts: Sequence[Context], rng: random.Random) -> Context:
    """Draw one of the best-ranked irrelevant contexts, of contexts of which one is. An annotated
    gold passage is relevant without the words of an answer, too.
    """
    return rng.choice(_list_irrelevant(contexts)[:_UNKNOWN_RANKS])


def _list_irrelevant(contexts: Sequence[Context]) -> list[Context]:
    return [context for context in contexts if not is_relevant(context)]


def select_reply(question: Question, context: Context) -> str:
    """Return the reply to teach for a context: the shortest accepted answer that it contains."""
    return find_shortest_answer(context.passage.text, select_writable_answers(question))


def _build_example(
    kind: str, question: Question, contexts: Sequence[Context], reply: str, render: Render
) -> Example:
    passages = tuple(context.passage for context in contexts)
    return Example(f"{question.question_id}/{kind}", render(question, contexts), reply, passages)
