"""Answer marginalisation: P(y) = sum over contexts of weight times P_G(y | question, context) (RE-RAG eqs. 2 and 6)."""

import math
from collections.abc import Mapping, Sequence

from winnow.metrics.answer import normalise


def log_softmax(values: Sequence[float]) -> list[float]:
    """Return the logarithms of the softmax of some values."""
    total = logsumexp(values)
    return [value - total for value in values]


def logsumexp(values: Sequence[float]) -> float:
    """Return the logarithm of a sum of exponentials, without overflow."""
    most = max(values)
    return most if math.isinf(most) else most + math.log(sum(math.exp(value - most) for value in values))


def distinct(answers: Sequence[str]) -> dict[str, str]:
    """Return the distinct answers by normalised form, each as it was first written."""
    found: dict[str, str] = {}
    for answer in answers:
        found.setdefault(normalise(answer), answer)
    return found


def fast(answers: Sequence[str], log_p: Sequence[float], log_weights: Sequence[float]) -> dict[str, float]:
    """Return log P of each distinct answer (by normalised form), counted only under contexts that gave it.

    Args:
        answers: one a context.
        log_p: log P_G of each context's own answer.
        log_weights: of the contexts.

    """
    parts: dict[str, list[float]] = {}
    for answer, value, weight in zip(answers, log_p, log_weights, strict=True):
        parts.setdefault(normalise(answer), []).append(value + weight)
    return {key: logsumexp(values) for key, values in parts.items()}


def best(log_p: Mapping[str, float]) -> str:
    """Return the most probable answer; equal ones go to the first."""
    return max(log_p, key=lambda key: log_p[key])


def choose(answers: Sequence[str], log_p: Sequence[float], scores: Sequence[float]) -> str:
    """Return the most probable answer by `fast`, as it was first written; contexts weigh with the softmax of `scores`."""
    return distinct(answers)[best(fast(answers, log_p, log_softmax(scores)))]
