"""Selection of words by their information: Selective Context (Li et al. 2023) and LongLLMLingua
(Jiang et al. 2024).
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Gt, Le

from winnow.errors import ReaderError, check_fields
from winnow.identity.values import check_values
from winnow.records import Context, Question
from winnow.requests import Likelihood, Message, Plan, Score
from winnow.strategies.corrective.segments import FixedWords
from winnow.strategies.processing.derived import derive_context

_WORD = re.compile(r"\S+")
_PIECES = FixedWords(size=300, min_words=50)
"""Division of long passages, so that a model with a short context can read them."""


@dataclass(frozen=True, slots=True)
class WordSelection:
    """A context processor that keeps the most informative words of each context.

    The information of a word is the sum of -log p(token | instruction, tokens before it) over its
    tokens, as in Selective Context. With `conditional`, it is the sum of log p(token | conditional,
    ...) - log p(token | instruction, ...): what the question makes more likely, as in
    LongLLMLingua's contrastive perplexity (eq. 3). Both papers select other units (phrases, tokens
    of segments that were compressed before), and divide the budget over documents; here each
    context keeps the same share, and one of more than 350 words is read in pieces.

    Args:
        instruction: Text before a context, which the model reads in either case.
        rate: Share of the words that are kept, rounded up.
        conditional: Text before a context with the field {question}, or "" for Selective Context.
    """

    revision: ClassVar[int] = 1

    instruction: str
    rate: Annotated[float, Gt(0), Le(1)] = 0.5
    conditional: str = ""

    def __post_init__(self) -> None:
        check_values("context.plan", self)
        if self.conditional:
            check_fields("context.plan.conditional", self.conditional, {"question"})

    def process(self, question: Question, contexts: Sequence[Context]) -> Plan[tuple[Context, ...]]:
        """Request context likelihoods, once or twice, and return contexts with their kept words."""
        prompts = [
            self.instruction,
            *([self.conditional.format(question=question.text)] if self.conditional else []),
        ]
        pieces = [
            (context, piece)
            for context in contexts
            for piece in _PIECES.divide(context.passage.text)
        ]
        if not pieces:
            return ()
        scores: Sequence[Score] = yield [
            Likelihood(
                (Message("user", prompt),),
                piece,
                include_eos=False,
                per_token=True,
                role="rewriter",
                passages=(context.passage,),
            )
            for context, piece in pieces
            for prompt in prompts
        ]
        values: dict[Context, list[float]] = {}
        for number, (context, piece) in enumerate(pieces):
            of_piece = scores[number * len(prompts) : (number + 1) * len(prompts)]
            values.setdefault(context, []).extend(_measure_words(piece, of_piece))
        return tuple(
            derive_context(
                question,
                [context],
                self._select(context.passage.text, of_words),
                context.passage.title,
            )
            for context, of_words in values.items()
        )

    def _select(self, text: str, values: Sequence[float]) -> str:
        """Return the words of a text that have the largest values, in their order."""
        words = text.split()
        best = sorted(range(len(words)), key=lambda number: (-values[number], number))
        return " ".join(
            words[number] for number in sorted(best[: math.ceil(self.rate * len(words))])
        )


def _measure_words(text: str, scores: Sequence[Score]) -> list[float]:
    """Return each word's information, from its score alone or also the one given the question."""
    if any(not score.tokens for score in scores):
        raise ReaderError(
            "context.plan reads the log-probabilities of a passage's tokens, but the rewriter "
            "returned none. Use a model on this machine with reader.engine.runtime=torch, or "
            "vLLM."
        )
    base = _sum_by_word(text, scores[0])
    if len(scores) == 1:
        return [-value for value in base]
    return [
        conditional - value
        for conditional, value in zip(_sum_by_word(text, scores[1]), base, strict=True)
    ]


def _sum_by_word(text: str, score: Score) -> list[float]:
    """Return the sum of the log-probabilities of each word's tokens.

    A token belongs to the word in which its first letter is. Tokens that do not spell the text,
    such as parts of a letter, are placed by their share of its length.
    """
    spelled = "".join(score.tokens)
    spells = len(spelled.strip()) == len(text)
    shift = len(spelled) - len(spelled.lstrip()) if spells else 0
    scale = 1.0 if spells else len(text) / max(len(spelled), 1)
    ends = [match.end() for match in _WORD.finditer(text)]
    sums = [0.0] * len(ends)
    word = 0
    for start, logprob in zip(_iter_starts(score.tokens), score.logprobs, strict=True):
        position = (start - shift) * scale
        while word < len(ends) - 1 and position >= ends[word]:
            word += 1
        sums[word] += logprob
    return sums


def _iter_starts(tokens: Sequence[str]) -> Iterator[int]:
    """Yield the position of each token's first letter that is not white space."""
    position = 0
    for token in tokens:
        yield position + len(token) - len(token.lstrip())
        position += len(token)
