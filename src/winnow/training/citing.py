"""Examples and prompts for training readers to cite: document mixtures and replies (RAGE, 4.2)."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from winnow.errors import ConfigError
from winnow.identity.values import check_values
from winnow.metrics.citation import mark_relevant, score_citations
from winnow.records import Context, Decoding, Question
from winnow.strategies.cite import Cite, prepare_passage
from winnow.strategies.prompt import Prompt
from winnow.targets import select_targets
from winnow.text.containment import has_answers
from winnow.training.examples import Example, select_reply


def list_citable(
    questions: Sequence[tuple[Question, Sequence[Context]]], max_words: int | None
) -> list[tuple[Question, list[Context]]]:
    """Return the questions whose prompts show a relevant document, with their retrieved contexts as
    the prompts show them: cut to `max_words`, and without an answer that is cut off.
    """
    candidates = [
        (question, _show(question, contexts, max_words)) for question, contexts in questions
    ]
    return [
        (question, contexts)
        for question, contexts in candidates
        if any(mark_relevant(question, contexts))
    ]


def _show(question: Question, contexts: Sequence[Context], max_words: int | None) -> list[Context]:
    ranked_contexts = [context for context in contexts if context.rank]
    passages = [prepare_passage(context.passage, max_words) for context in ranked_contexts]
    labels = has_answers([passage.text for passage in passages], question.answers)
    return [
        replace(context, passage=passage, has_answer=has_answer)
        for context, passage, has_answer in zip(ranked_contexts, passages, labels, strict=True)
    ]


@dataclass(frozen=True)
class CitationPrompts:
    """Prompts of reinforcement learning, on whose replies a metric of citations is the reward.

    A reader that is trained on them, or on examples of a derived class, is evaluated by its
    citations.

    Attributes:
        examples: Maximum number of prompts.
        max_words: Number of words to which passages are cut, as in `Cite`.
    """

    revision: ClassVar[int] = 2
    new_tokens: ClassVar[tuple[str, ...]] = ()

    examples: Annotated[int, Ge(1)] = 10347
    max_words: int | None = None

    def __post_init__(self) -> None:
        check_values("training.mix", self)

    def build_strategy(self, prompt: Prompt, decoding: Decoding) -> Cite:
        """Return the strategy whose prompts are trained on."""
        return Cite(prompt, decoding, self.max_words)

    def select_questions(
        self, questions: Sequence[tuple[Question, Sequence[Context]]], seed: int
    ) -> list[tuple[Question, list[Context]]]:
        """Draw questions whose prompts show a relevant document, in random order, with their
        contexts as the prompts show them.

        Args:
            questions: Questions with their contexts in prompt order.
            seed: Seed of the draw.

        Raises:
            ConfigError: If there is no such question.
        """
        citable_questions = list_citable(questions, self.max_words)
        if not citable_questions:
            raise ConfigError(
                "No question of the split has a relevant passage among its contexts, so that there "
                "is nothing to cite. Check the corpus, training.rankings, training.split and "
                "training.evaluation.split."
            )
        random.Random(seed).shuffle(citable_questions)
        return citable_questions[: self.examples]


@dataclass(frozen=True)
class CitationMix(CitationPrompts):
    """Training examples with replies from labels: the shortest answer in a relevant passage, and
    all relevant passages.

    A reply is, for example, `Jane Austen [2][4]`. A question without short answers, as in BEIR, has
    the citations alone.

    Attributes:
        examples: Maximum number of examples.
        max_words: Number of words to which passages are cut, as in `Cite`.
    """

    revision: ClassVar[int] = 3

    examples: Annotated[int, Ge(1)] = 450

    def build_examples(
        self, questions: Sequence[tuple[Question, Sequence[Context]]], prompt: Prompt, seed: int
    ) -> list[Example]:
        """Draw examples in random order.

        Args:
            questions: Training questions with their contexts in prompt order.
            prompt: Templates of the prompt.
            seed: Seed of the draw.
        """
        examples = []
        for question, contexts in self.select_questions(questions, seed):
            numbers = [
                n
                for n, relevant in enumerate(mark_relevant(question, contexts), start=1)
                if relevant
            ]
            citations = "".join(f"[{number}]" for number in numbers)
            is_answered = bool(select_targets(question))
            answer = select_reply(question, contexts[numbers[0] - 1]) if is_answered else ""
            reply = f"{answer} {citations}".strip()
            examples.append(_build_example("cited", question, contexts, prompt, reply))
        return examples


@dataclass(frozen=True)
class SyntheticCitations(CitationPrompts):
    """Training examples whose replies a stronger reader wrote (RAGE, section 4.2: GPT-3.5).

    Attributes:
        examples: Maximum number of examples.
        max_words: Number of words to which passages are cut, as in `Cite`.
        min_f1: Smallest citation F1 (dialect "rage") of a reply that is used, or None for all
            replies (RAGE).
        replies: Replies of the stronger reader by question id.
    """

    revision: ClassVar[int] = 3

    examples: Annotated[int, Ge(1)] = 3201
    min_f1: Annotated[float, Ge(0), Le(1)] | None = None
    replies: Mapping[str, str] = field(default_factory=dict)

    def build_examples(
        self, questions: Sequence[tuple[Question, Sequence[Context]]], prompt: Prompt, seed: int
    ) -> list[Example]:
        """Build examples from nonempty replies of at least `min_f1`, or raise ConfigError."""
        examples = []
        for question, contexts in self.select_questions(questions, seed):
            reply = self.replies.get(question.question_id, "").strip()
            quality = score_citations(reply, mark_relevant(question, contexts)).f1
            if reply and (self.min_f1 is None or quality >= self.min_f1):
                examples.append(_build_example("synthetic", question, contexts, prompt, reply))
        if not examples:
            raise ConfigError(
                f"None of {len(self.replies)} replies of the teacher can be used: they are empty "
                f"or have a citation F1 below training.mix.min_f1={self.min_f1}. Lower it, or "
                "choose a stronger teacher."
            )
        return examples


def _build_example(
    kind: str, question: Question, contexts: Sequence[Context], prompt: Prompt, reply: str
) -> Example:
    passages = tuple(context.passage for context in contexts)
    messages = prompt.render(question, contexts)
    return Example(f"{question.question_id}/{kind}", messages, reply, passages)
