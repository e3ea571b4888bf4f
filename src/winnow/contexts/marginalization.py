"""Answer marginalization: P(y) = sum over contexts of weight times P_G(y | question, context) (RE-RAG eqs. 2 and 6)."""

import math
from collections.abc import Mapping, Sequence

from winnow.metrics.answer import normalise


def log_softmax(values: Sequence[float]) -> list[float]:
    """Compute the log-softmax of the values."""
    log_total = logsumexp(values)
    return [value - log_total for value in values]


def logsumexp(values: Sequence[float]) -> float:
    """Compute the logarithm of the sum of exponentials of the values, without overflow."""
    largest = max(values)
    return largest if math.isinf(largest) else largest + math.log(sum(math.exp(value - largest) for value in values))


def first_spellings(answers: Sequence[str]) -> dict[str, str]:
    """Map the normalised form of each distinct answer to the first of its spellings."""
    spellings: dict[str, str] = {}
    for answer in answers:
        spellings.setdefault(normalise(answer), answer)
    return spellings


def marginalize(answers: Sequence[str], log_p: Sequence[float], log_weights: Sequence[float]) -> dict[str, float]:
    """Compute log P of each distinct answer, by its normalised form, from only the contexts that produced the answer.

    Args:
        answers: Answer from each context.
        log_p: Log-probability log P_G of each context's own answer.
        log_weights: Log-weight of each context.

    """
    terms: dict[str, list[float]] = {}
    for answer, answer_log_p, log_weight in zip(answers, log_p, log_weights, strict=True):
        terms.setdefault(normalise(answer), []).append(answer_log_p + log_weight)
    return {key: logsumexp(values) for key, values in terms.items()}


def most_probable(log_p: Mapping[str, float]) -> str:
    """Return the most probable answer; the first one wins ties."""
    return max(log_p, key=lambda key: log_p[key])


def most_probable_answer(answers: Sequence[str], log_p: Sequence[float], scores: Sequence[float]) -> str:
    """Return the most probable answer in its first spelling; context weights are the softmax of `scores`."""
    return first_spellings(answers)[most_probable(marginalize(answers, log_p, log_softmax(scores)))]
