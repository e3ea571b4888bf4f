"""Answer marginalization: P(y) = sum over contexts of weight times P_G(y | question, context) (RE-RAG eqs. 2 and 6)."""

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
    """Return the distinct answers by normalised form, each as first written."""
    first: dict[str, str] = {}
    for answer in answers:
        first.setdefault(normalise(answer), answer)
    return first


def fast(answers: Sequence[str], log_p: Sequence[float], log_weights: Sequence[float]) -> dict[str, float]:
    """Return log P of each distinct answer (by normalised form), summed over the contexts that produced it.

    Args:
        answers: one per context.
        log_p: log P_G of each context's own answer.
        log_weights: of the contexts.

    """
    parts: dict[str, list[float]] = {}
    for answer, value, weight in zip(answers, log_p, log_weights, strict=True):
        parts.setdefault(normalise(answer), []).append(value + weight)
    return {key: logsumexp(values) for key, values in parts.items()}


def best(log_p: Mapping[str, float]) -> str:
    """Return the most probable answer, the first of equal ones."""
    return max(log_p, key=lambda key: log_p[key])


def choose(answers: Sequence[str], log_p: Sequence[float], scores: Sequence[float]) -> str:
    """Return the most probable answer by `fast`, as first written; the contexts' weights are the softmax of `scores`."""
    return distinct(answers)[best(fast(answers, log_p, log_softmax(scores)))]
