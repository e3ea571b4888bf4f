"""Reflection tokens, by which Self-RAG criticizes its text, and scores from their probabilities."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from msgspec import structs

from winnow.errors import ReaderError
from winnow.requests import Generation

RETRIEVE, NO_RETRIEVAL = "[Retrieval]", "[No Retrieval]"
RELEVANCE: Mapping[str, float] = {"[Relevant]": 1.0, "[Irrelevant]": 0.0}
SUPPORT: Mapping[str, float] = {
    "[Fully supported]": 1.0,
    "[Partially supported]": 0.5,
    "[No support / Contradictory]": 0.0,
}
UTILITY: Mapping[str, float] = {f"[Utility:{grade}]": (grade - 3) / 2 for grade in range(1, 6)}
"""Tokens of each kind with their values."""
TOKENS = (RETRIEVE, NO_RETRIEVAL, *RELEVANCE, *SUPPORT, *UTILITY)
_ANY_TOKEN = re.compile(
    "|".join(map(re.escape, (*TOKENS, "[Continue to Use Evidence]", "<paragraph>", "</paragraph>")))
)

_MISSING_LOGPROBS = (
    "Self-RAG needs the log-probabilities of all reflection tokens, which this reader does not "
    "report. Use a local reader with reader.engine.runtime=torch, and a model with these tokens."
)


@dataclass(frozen=True, slots=True)
class SegmentScore:
    """Weights of the parts of a segment's score.

    The score is likelihood x exp(mean log-probability of the tokens) + relevance x P(relevant) +
    support x (P(fully) + 0.5 P(partially supported)) + utility x the expected value of the grades 1
    to 5 as -1, -0.5, 0, 0.5 and 1. Each probability is that of a token against the others of its
    kind: those of relevance at the first position, the others where the model first wrote a token
    of the kind. A kind that the model did not write adds nothing.

    Args:
        relevance: Weight of relevance (published: 1).
        support: Weight of support (1).
        utility: Weight of utility (0.5 in the examples of the published code, 1 as its default).
        likelihood: Weight of the likelihood (1, or 0 for a score of the reflection tokens alone).
    """

    revision: ClassVar[int] = 1

    relevance: float = 1.0
    support: float = 1.0
    utility: float = 0.5
    likelihood: float = 1.0

    def compute(self, segment: Generation) -> float:
        """Compute the score of a segment; raise ReaderError if it has no log-probabilities."""
        if (
            segment.logprobs is None
            or segment.token_logprobs is None
            or segment.token_positions is None
        ):
            raise ReaderError(_MISSING_LOGPROBS)
        mean = sum(segment.logprobs) / len(segment.logprobs) if segment.logprobs else -math.inf
        return (
            self.likelihood * math.exp(mean)
            + self.relevance * _compute_expectation(segment, RELEVANCE, 0)
            + self.support * _compute_expectation(segment, SUPPORT, _find_first(segment, SUPPORT))
            + self.utility * _compute_expectation(segment, UTILITY, _find_first(segment, UTILITY))
        )


def compute_retrieval_probability(segment: Generation, position: int = 0) -> float:
    """Compute P(retrieve) against P(no retrieval) at a position of a reply.

    The published code for short answers divides the log-probabilities, by which a smaller
    probability gives a larger share.

    Raises:
        ReaderError: If the reader reported no log-probabilities.
    """
    if segment.token_logprobs is None:
        raise ReaderError(_MISSING_LOGPROBS)
    return _compute_expectation(segment, {RETRIEVE: 1.0, NO_RETRIEVAL: 0.0}, position)


def cut_segment(segment: Generation, text: str) -> Generation:
    """Return a segment cut to `text`, with log-probabilities up to the next reflection token.

    Readers report no positions of other tokens, so that the likelihood may include some tokens
    between both.
    """
    positions = segment.token_positions or {}
    later = [
        position
        for token, occurrences in positions.items()
        for position in occurrences[text.count(token) :]
    ]
    if not later:
        return structs.replace(segment, text=text)
    steps = min(later)
    return structs.replace(
        segment,
        text=text,
        logprobs=None if segment.logprobs is None else segment.logprobs[:steps],
        token_logprobs={
            token: values[:steps] for token, values in (segment.token_logprobs or {}).items()
        },
        token_positions={
            token: tuple(p for p in occurrences if p < steps)
            for token, occurrences in positions.items()
        },
    )


def remove_reflection_tokens(text: str) -> str:
    """Return a text without reflection tokens, and without the space that they leave."""
    return " ".join(_ANY_TOKEN.sub(" ", text).split())


def _find_first(segment: Generation, tokens: Mapping[str, float]) -> int | None:
    """Return the first position at which one of the tokens was written, or None."""
    positions = segment.token_positions or {}
    return min(
        (position for token in tokens for position in positions.get(token, ())), default=None
    )


def _compute_expectation(
    segment: Generation, values: Mapping[str, float], position: int | None
) -> float:
    """Return the mean of values weighted by token probability at a position, or 0 without any."""
    logprobs = segment.token_logprobs or {}
    at_position: Sequence[float] = [
        (
            logprobs[token][position]
            if position is not None and position < len(logprobs.get(token, ()))
            else -math.inf
        )
        for token in values
    ]
    largest = max(at_position)
    if largest == -math.inf:
        return 0.0
    weights = [math.exp(logprob - largest) for logprob in at_position]
    return sum(
        weight * value for weight, value in zip(weights, values.values(), strict=True)
    ) / sum(weights)
