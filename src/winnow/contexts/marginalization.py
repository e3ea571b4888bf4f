"""Answer marginalization: the weighted mean probability over contexts (RE-RAG, eqs. 2 and 6).

P(y) = sum over contexts of weight(context) * P_G(y | question, context), where P_G is the
probability under the generator.
"""

import math
from collections.abc import Mapping, Sequence

from winnow.text.normalization import normalize_candidate


def log_softmax(values: Sequence[float]) -> list[float]:
    """Compute the log-softmax of the values."""
    log_total = logsumexp(values)
    return [value - log_total for value in values]


def logsumexp(values: Sequence[float]) -> float:
    """Compute the logarithm of the sum of exponentials of the values, without overflow."""
    largest = max(values)
    return (
        largest
        if math.isinf(largest)
        else largest + math.log(sum(math.exp(value - largest) for value in values))
    )


def collect_spellings(answers: Sequence[str]) -> dict[str, str]:
    """Map each distinct answer's normalized form to its first spelling in the given answers."""
    spellings: dict[str, str] = {}
    for answer in answers:
        spellings.setdefault(normalize_candidate(answer), answer)
    return spellings


def marginalize(
    answers: Sequence[str], log_p: Sequence[float], log_weights: Sequence[float]
) -> dict[str, float]:
    """Compute log P by normalized answer; the sum is over the contexts that produced the answer.

    Args:
        answers: Answer from each context.
        log_p: Log-probability, under the generator, of each context's answer given that context.
        log_weights: Log-weight of each context.
    """
    terms: dict[str, list[float]] = {}
    for answer, answer_log_p, log_weight in zip(answers, log_p, log_weights, strict=True):
        terms.setdefault(normalize_candidate(answer), []).append(answer_log_p + log_weight)
    return {key: logsumexp(values) for key, values in terms.items()}


def select_most_probable(log_p: Mapping[str, float]) -> str:
    """Return the answer with the highest log-probability. The first of equal ones wins."""
    return max(log_p, key=lambda answer: log_p[answer])


def select_most_probable_answer(
    answers: Sequence[str], log_p: Sequence[float], scores: Sequence[float]
) -> str:
    """Return the first spelling of the most probable answer, with the scores' softmax as weights.

    Args:
        answers: Answer from each context.
        log_p: Log-probability, under the generator, of each context's answer given that context.
        scores: Score of each context.
    """
    spellings = collect_spellings(answers)
    log_p_by_answer = marginalize(answers, log_p, log_softmax(scores))
    return spellings[select_most_probable(log_p_by_answer)]
