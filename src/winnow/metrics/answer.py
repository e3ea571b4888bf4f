"""Exact match, F1 and accuracy of an answer, as different published implementations compute them.

A dialect is the set of rules of one implementation:

- `squad`: The evaluation of SQuAD 1.1. The F1 of an empty prediction or answer is 0.
- `squad_v2`: The evaluation of SQuAD 2.0. Answers that are empty after normalization are ignored,
  unless all of them are empty. The F1 of two empty texts is 1.
- `fid`: The evaluation of FiD. It differs from `squad` in the word boundaries of the `regex`
  library, where a combining mark belongs to the word. An "a" that is followed by a combining accent
  is therefore not treated as an article.
- `flashrag`: The evaluation of FlashRAG. It differs from `squad` in that the F1 is 0 if prediction
  and answer differ and either of them is yes, no or noanswer.
- `crag`: The evaluation of CRAG. A prediction is correct if it contains an answer verbatim, without
  normalization. F1 is computed as in `squad`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import get_args

from winnow.errors import ConfigError, InputError
from winnow.text.normalization import Dialect, normalize

_DIALECTS = frozenset(get_args(Dialect))
_YES_NO_ANSWERS = frozenset({"yes", "no", "noanswer"})


def exact_match(prediction: str, answers: Sequence[str], dialect: Dialect = "squad") -> float:
    """Return 1.0 if any answer matches after normalization, else 0.0. `crag` uses `accuracy`."""
    _validate(answers, dialect)
    if dialect == "crag":
        return accuracy(prediction, answers, dialect)
    return float(normalize(prediction, dialect) in _normalize_answers(tuple(answers), dialect))


def has_exact_match(
    predictions: Iterable[str], answers: Sequence[str], dialect: Dialect = "squad"
) -> bool:
    """Return whether any of several predictions is an exact match."""
    _validate(answers, dialect)
    if dialect == "crag":
        return any(accuracy(prediction, answers, dialect) for prediction in predictions)
    normalized_answers = _normalize_answers(tuple(answers), dialect)
    return any(normalize(prediction, dialect) in normalized_answers for prediction in predictions)


def f1(prediction: str, answers: Sequence[str], dialect: Dialect = "squad") -> float:
    """Compute the highest token F1 (0 to 1) of the prediction against any of the answers."""
    _validate(answers, dialect)
    normalized_prediction = normalize(prediction, dialect)
    return max(
        _token_f1(normalized_prediction, answer, dialect)
        for answer in _normalize_answers(tuple(answers), dialect)
    )


def accuracy(prediction: str, answers: Sequence[str], dialect: Dialect = "squad") -> float:
    """Return 1.0 if an answer is a substring of the prediction, else 0.0 (cover exact match).

    Prediction and answers are normalized first, except for `crag`. As in FlashRAG, an answer that
    is empty after normalization always matches, and the answer "10" matches the prediction "2010".
    """
    _validate(answers, dialect)
    if dialect == "crag":
        return float(any(answer in prediction for answer in answers))
    normalized_prediction = normalize(prediction, dialect)
    return float(
        any(
            answer in normalized_prediction
            for answer in _normalize_answers(tuple(answers), dialect)
        )
    )


@lru_cache(maxsize=100_000)
def _normalize_answers(answers: tuple[str, ...], dialect: Dialect) -> tuple[str, ...]:
    """Normalize the answers. `squad_v2` drops empty ones, but keeps one if all are empty."""
    normalized_answers = tuple(normalize(answer, dialect) for answer in answers)
    if dialect != "squad_v2":
        return normalized_answers
    return tuple(answer for answer in normalized_answers if answer) or ("",)


def _token_f1(prediction: str, answer: str, dialect: Dialect) -> float:
    """Compute the F1 of the tokens that two normalized texts have in common."""
    if (
        dialect == "flashrag"
        and prediction != answer
        and (prediction in _YES_NO_ANSWERS or answer in _YES_NO_ANSWERS)
    ):
        return 0.0
    if not prediction or not answer:
        return float(dialect == "squad_v2" and prediction == answer)
    if prediction == answer:
        return 1.0
    prediction_tokens, answer_tokens = prediction.split(), answer.split()
    if set(prediction_tokens).isdisjoint(answer_tokens):
        return 0.0
    overlap = sum((Counter(prediction_tokens) & Counter(answer_tokens)).values())
    return 2 * overlap / (len(prediction_tokens) + len(answer_tokens))


def _validate(answers: Sequence[str], dialect: str) -> None:
    """Raise ConfigError for an unknown dialect, or InputError if `answers` is a string or empty."""
    if dialect not in _DIALECTS:
        raise ConfigError(
            f"dialect must be one of {', '.join(get_args(Dialect))}; received {dialect!r}."
        )
    if isinstance(answers, str):
        raise InputError(
            f"answers must be a list of strings; received the string {answers!r}. Wrap it in a "
            "list."
        )
    if not answers:
        raise InputError(
            "The list of answers is empty, so that the prediction cannot be scored. Provide at "
            "least one answer."
        )
