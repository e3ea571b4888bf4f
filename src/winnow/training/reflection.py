"""Training examples of a Self-RAG model, which writes reflection tokens about passages and answers.

Asai et al. (2024) let a critic, a language model, write the reflection tokens of their data. Here
they follow from labels: a passage that contains an accepted answer is relevant and supports it.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.identity.values import check_values
from winnow.records import Context, Decoding, Question
from winnow.strategies.prompt import Prompt
from winnow.strategies.self_rag.reflection import RETRIEVE, TOKENS
from winnow.strategies.self_rag.segments import build_segment_request
from winnow.text.normalization import UNKNOWN
from winnow.training.examples import (
    Example,
    draw_negative,
    find_answer_context,
    select_contrasted,
    select_reply,
)


@dataclass(frozen=True, slots=True)
class ReflectionMix:
    """Maximum numbers of training examples of a Self-RAG model.

    Attributes:
        relevant: Number of examples with the best-ranked passage that contains the answer. The
            reply is "[Relevant]", the answer, "[Fully supported]" and "[Utility:5]".
        irrelevant: Number of examples with an irrelevant top-ranked passage. The reply is
            "[Irrelevant]", "unknown" and "[Utility:1]".
        decisions: Number of examples without a passage, whose reply is "[Retrieval]".
    """

    new_tokens: ClassVar[tuple[str, ...]] = TOKENS

    relevant: Annotated[int, Ge(1)] = 160
    irrelevant: Annotated[int, Ge(1)] = 160
    decisions: Annotated[int, Ge(0)] = 40

    def __post_init__(self) -> None:
        check_values("training.mix", self)

    def build_examples(
        self, questions: Sequence[tuple[Question, Sequence[Context]]], prompt: Prompt, seed: int
    ) -> list[Example]:
        """Draw training examples from the questions that have contexts with the answer and
        irrelevant ones, in random order.

        Args:
            questions: Training questions with their contexts, best-ranked first.
            prompt: Templates: `without_contexts` is the instruction, and `passage` the paragraph of
                a passage.
            seed: Seed of the random choices.

        Raises:
            ConfigError: If no question has contexts of both sorts.
        """
        rng = random.Random(seed)
        usable = select_contrasted(questions)
        rng.shuffle(usable)
        examples = []
        for question, contexts in usable[: self.relevant]:
            context = find_answer_context(contexts)
            reply = f"[Relevant]{select_reply(question, context)}[Fully supported][Utility:5]"
            examples.append(_build_example("relevant", prompt, question, context, reply))
        rng.shuffle(usable)
        for question, contexts in usable[: self.irrelevant]:
            context = draw_negative(contexts, rng)
            reply = f"[Irrelevant]{UNKNOWN}[Utility:1]"
            examples.append(_build_example("irrelevant", prompt, question, context, reply))
        rng.shuffle(usable)
        examples += [
            _build_example("decision", prompt, question, None, RETRIEVE)
            for question, _ in usable[: self.decisions]
        ]
        rng.shuffle(examples)
        return examples


def _build_example(
    kind: str, prompt: Prompt, question: Question, context: Context | None, reply: str
) -> Example:
    """Build an example with the strategy's prompt, which ends with the beginning of the reply."""
    request = build_segment_request(
        prompt, question, Decoding(), passage=context.passage if context else None
    )
    return Example(f"{question.question_id}/{kind}", request.messages, reply, request.passages)
