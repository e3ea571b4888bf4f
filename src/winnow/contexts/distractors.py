"""Distractors: which passages accompany the gold passage, with their number and length held equal.

A longer prompt is harder to read, and so is one whose other passages compete with the gold passage.
To tell the two apart, the passages without an answer are exchanged for those of another kind, of
which the prompt has as many, with as many words.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from winnow.contexts.gold import is_relevant
from winnow.errors import ConfigError, InputError
from winnow.identity.values import check_values
from winnow.records import Context, Passage, Question
from winnow.text.containment import has_answer
from winnow.text.words import cut_words

Kind = Literal["retrieved", "hard", "easy", "random"]

_DRAWS_PER_CONTEXT = 50
"""Number of passages that are looked at for each random distractor, at most."""


@dataclass(frozen=True, slots=True)
class Distractors:
    """A rule that keeps the contexts or replaces non-gold ones with passages without an answer.

    A gold passage keeps its rank, and one that is ranked below k is as one that was not retrieved;
    a placement then selects and orders the contexts. Kinds differ in how close the distractors are
    to the question:

    - "retrieved": no context is replaced, whether or not it contains an answer.
    - "hard": the best-ranked contexts that are neither gold nor contain an answer.
    - "easy": the worst-ranked of them.
    - "random": passages that were retrieved for other questions, drawn at random.

    Distractors have at least `words` words and are cut to that number, so that distractors of all
    kinds are equally long. Hard ones are from the better-ranked half of the contexts that qualify
    and easy ones from the other half, so that they never are the same. Where a half has fewer than
    k, random ones take the places of those that are missing. A distractor has the rank of the
    context that it replaces.

    Args:
        kind: Kind of the distractors.
        words: Number of words of a distractor, or None for whole passages of any length.
        share: Share of hard or easy ones among the k - 1 distractors next to a gold passage; random
            ones are the others. What is hard with a smaller share is hard with a larger one, too.
        seed: Seed of the draw, which also depends on the question.
    """

    revision: ClassVar[int] = 2

    kind: Kind = "retrieved"
    words: Annotated[int, Ge(1)] | None = None
    share: Annotated[float, Ge(0), Le(1)] = 1.0
    seed: Annotated[int, Ge(0)] = 13

    def __post_init__(self) -> None:
        check_values("distractors.rule", self)
        if self.words is not None and self.kind == "retrieved":
            raise ConfigError(
                "distractors.rule.words must be null for kind=retrieved, which cuts no passage; "
                f"received {self.words}."
            )
        if self.share < 1 and self.kind not in ("hard", "easy"):
            raise ConfigError(
                "distractors.rule.share must be 1 unless the kind is hard or easy, because the "
                f"others are random; received {self.share} for kind={self.kind}."
            )

    @property
    def uses_gold(self) -> bool:
        """Return whether the gold labels decide which contexts are replaced."""
        return self.kind != "retrieved"

    def replace_contexts(
        self, question: Question, contexts: Sequence[Context], k: int, pool: Sequence[Passage]
    ) -> tuple[Context, ...]:
        """Return the contexts of a question with at most k distractors in place of non-gold ones.

        Args:
            question: Question to which the contexts belong.
            contexts: Contexts, best first, with gold passages marked. Contexts that were not
                retrieved have rank 0.
            k: Number of contexts in the prompt.
            pool: Passages from which random distractors are drawn.

        Raises:
            InputError: If there are too few distractors for k contexts.
        """
        if self.kind == "retrieved":
            return tuple(contexts)
        distractors = iter(self._select(question, contexts, k, pool))
        selection: list[Context] = []
        for position, context in enumerate(contexts, start=1):
            if context.is_gold:
                selection.append(context if position <= k else replace(context, rank=0))
            elif (distractor := next(distractors, None)) is not None:
                excerpt = replace(
                    distractor.passage, text=cut_words(distractor.passage.text, self.words)
                )
                selection.append(replace(distractor, passage=excerpt, rank=context.rank))
        num_needed = min(k, sum(not context.is_gold for context in contexts))
        num_distractors = sum(not context.is_gold for context in selection)
        if num_distractors < num_needed:
            raise InputError(
                f"Question {question.question_id!r} has only {num_distractors} of {num_needed} "
                f"distractors in a pool of {len(pool)} passages. Lower k or "
                "distractors.rule.words, or take a larger corpus."
            )
        return tuple(selection)

    def _select(
        self, question: Question, contexts: Sequence[Context], k: int, pool: Sequence[Passage]
    ) -> list[Context]:
        """Return up to k distractors."""
        if self.kind == "random":
            return self._draw(question, contexts, k, pool)
        candidates = [
            context
            for context in contexts
            if context.rank > 0
            and not is_relevant(context)
            and self._qualifies(question, context.passage)
        ]
        middle = (len(candidates) + 1) // 2
        selection = (
            candidates[:middle][:k] if self.kind == "hard" else candidates[middle:][::-1][:k]
        )
        if self.share == 1:
            return [*selection, *self._draw(question, contexts, k - len(selection), pool)]
        others = max(k - 1, 0)
        order = random.Random(f"{self.seed}/share/{question.question_id}").sample(
            range(others), others
        )
        places = set(order[: round(self.share * others)])
        of_kind, draws = iter(selection), iter(self._draw(question, contexts, k, pool))
        slots = [next(of_kind, None) if place in places else None for place in range(k)]
        return [context for one in slots if (context := one or next(draws, None)) is not None]

    def _draw(
        self, question: Question, contexts: Sequence[Context], count: int, pool: Sequence[Passage]
    ) -> list[Context]:
        """Draw passages that were not retrieved for the question and do not contain an answer."""
        if not count:
            return []
        rng = random.Random(f"{self.seed}/distractors/{question.question_id}")
        own = {context.passage.passage_id for context in contexts}
        sample: list[Context] = []
        num_drawn = min(len(pool), _DRAWS_PER_CONTEXT * count + len(own))
        for index in rng.sample(range(len(pool)), num_drawn):
            if len(sample) == count:
                break
            passage = pool[index]
            if passage.passage_id not in own and self._qualifies(question, passage):
                sample.append(Context(passage, rank=0, score=None, has_answer=False))
        return sample

    def _qualifies(self, question: Question, passage: Passage) -> bool:
        """Return whether a passage is long enough and has no answer in its title or its text."""
        is_long = self.words is None or len(passage.text.split()) >= self.words
        return is_long and not any(
            has_answer(text, question.answers) for text in (passage.title, passage.text)
        )
