"""Distractors: which passages stand beside the gold passage, with their number and length held equal.

A longer prompt is harder to read, and so is one whose other passages compete with the gold passage. To tell the two apart,
the passages without an answer are exchanged for those of another kind, of which the prompt has as many, with as many words.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

from winnow.contexts.gold import is_relevant
from winnow.errors import ConfigError
from winnow.metrics.ranking import has_answer
from winnow.records import Context, Passage, Question

Kind = Literal["retrieved", "hard", "easy", "random"]

_DRAWS_PER_CONTEXT = 50
"""Number of passages that are looked at for each random distractor, at most."""


@dataclass(frozen=True, slots=True)
class Distractors:
    """A rule that keeps the retrieved contexts, or replaces all but the gold passages by passages without an answer.

    A gold passage keeps its rank; a placement then selects and orders the contexts. Kinds differ in how close the distractors
    are to the question:

    - "retrieved": no context is replaced, whether or not it contains an answer.
    - "hard": the best-ranked contexts that are neither gold nor contain an answer.
    - "easy": the worst-ranked of them.
    - "random": passages that were retrieved for other questions, drawn at random.

    Passages of at least `words` words are preferred, and cut to that number, so that distractors of all kinds are equally
    long. If there are fewer than k of a kind, the prompt has fewer contexts.

    Args:
        kind: Kind of the distractors.
        words: Number of words to which a distractor is cut, or None for whole passages.
        seed: Seed of the draw, which also depends on the question.

    """

    revision: ClassVar[int] = 1

    kind: Kind = "retrieved"
    words: int | None = None
    seed: int = 13

    def __post_init__(self) -> None:
        """Raise ConfigError for an unknown kind, and for distractors without a word."""
        if self.kind not in get_args(Kind):
            raise ConfigError(f"distractors.rule.kind must be retrieved, hard, easy or random; received {self.kind!r}.")
        if self.words is not None and (self.words < 1 or self.kind == "retrieved"):
            raise ConfigError(
                "distractors.rule.words must be at least 1 or null, and null for kind=retrieved, which cuts no passage; "
                f"received {self.words} for kind={self.kind}."
            )

    def replace_contexts(
        self, question: Question, contexts: Sequence[Context], k: int, pool: Sequence[Passage]
    ) -> tuple[Context, ...]:
        """Return the contexts of a question with at most k distractors in place of those that are not gold.

        Args:
            question: Question to which the contexts belong.
            contexts: Contexts, best first, with gold passages marked. Contexts that were not retrieved have rank 0.
            k: Number of contexts in the prompt.
            pool: Passages from which random distractors are drawn.

        """
        if self.kind == "retrieved":
            return tuple(contexts)
        distractors = iter(self._select(question, contexts, k, pool))
        replaced: list[Context] = []
        for context in contexts:
            if context.is_gold:
                replaced.append(context)
            elif (distractor := next(distractors, None)) is not None:
                replaced.append(replace(distractor, passage=self._cut(distractor.passage), rank=context.rank))
        return tuple(replaced)

    def _select(self, question: Question, contexts: Sequence[Context], k: int, pool: Sequence[Passage]) -> Iterable[Context]:
        """Return up to k distractors; those that are long enough precede the others."""
        if self.kind == "random":
            candidates = self._draw(question, contexts, k, pool)
        else:
            candidates = [context for context in contexts if context.rank > 0 and not is_relevant(context)]
            candidates = candidates if self.kind == "hard" else candidates[::-1]
        return sorted(candidates, key=lambda context: not self._is_long(context.passage))[:k]

    def _draw(self, question: Question, contexts: Sequence[Context], k: int, pool: Sequence[Passage]) -> list[Context]:
        """Draw passages that were not retrieved for the question and do not contain an answer."""
        rng = random.Random(f"{self.seed}/distractors/{question.question_id}")
        own = {context.passage.passage_id for context in contexts}
        drawn: list[Context] = []
        long = 0
        for index in rng.sample(range(len(pool)), min(len(pool), _DRAWS_PER_CONTEXT * k + len(own))):
            passage = pool[index]
            if long == k:
                break
            if passage.passage_id not in own and not has_answer(passage.text, question.answers):
                drawn.append(Context(passage, rank=0, score=None, has_answer=False))
                long += self._is_long(passage)
        return drawn

    def _is_long(self, passage: Passage) -> bool:
        return self.words is None or len(passage.text.split()) >= self.words

    def _cut(self, passage: Passage) -> Passage:
        words = passage.text.split()
        is_longer = self.words is not None and len(words) > self.words
        return replace(passage, text=" ".join(words[: self.words])) if is_longer else passage
