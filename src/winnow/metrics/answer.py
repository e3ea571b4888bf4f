"""Exact match, F1 and accuracy of an answer, in the dialects of published implementations.

`squad` is SQuAD's and FiD's normalisation. `flashrag` differs in F1 (zero when exactly one side is yes, no or
noanswer; precision, recall and F1 each maximised over the answers) and equals `squad` otherwise. `crag` counts an
answer as right when it is contained, raw and case-sensitive, in the prediction.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, get_args

from winnow.errors import ConfigError, InputError

Dialect = Literal["squad", "fid", "flashrag", "crag"]
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_DROP_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = frozenset({"yes", "no", "noanswer"})


@lru_cache(maxsize=100_000)
def normalise(text: str) -> str:
    """Return the text in lower case, without ASCII punctuation, articles and needless white space (SQuAD)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_DROP_PUNCTUATION)).split())


def exact_match(prediction: str, answers: Sequence[str], dialect: Dialect = "squad") -> float:
    """Return 1.0 where the normalised prediction equals a normalised answer, else 0.0."""
    _check(answers, dialect)
    if dialect == "crag":
        return accuracy(prediction, answers, dialect)
    return float(any(normalise(prediction) == normalise(answer) for answer in answers))


def f1(prediction: str, answers: Sequence[str], dialect: Dialect = "squad") -> float:
    """Return the highest token F1 (0 to 1) of the prediction against the answers."""
    _check(answers, dialect)
    return max(_token_f1(normalise(prediction), normalise(answer), dialect) for answer in answers)


def accuracy(prediction: str, answers: Sequence[str], dialect: Dialect = "squad") -> float:
    """Return 1.0 where a (normalised; in `crag` raw) answer is a substring of the prediction, else 0.0.

    As in FlashRAG, an answer that normalises to nothing always hits, and "10" is found in "2010".
    """
    _check(answers, dialect)
    if dialect == "crag":
        return float(any(answer in prediction for answer in answers))
    return float(any(normalise(answer) in normalise(prediction) for answer in answers))


def _token_f1(prediction: str, answer: str, dialect: Dialect) -> float:
    if dialect == "flashrag" and prediction != answer and (prediction in _CLOSED or answer in _CLOSED):
        return 0.0
    if not prediction or not answer:
        return float(prediction == answer)
    left, right = prediction.split(), answer.split()
    shared = sum((Counter(left) & Counter(right)).values())
    return 2 * shared / (len(left) + len(right))


def _check(answers: Sequence[str], dialect: str) -> None:
    if dialect not in get_args(Dialect):
        raise ConfigError(f"dialect must be one of {', '.join(get_args(Dialect))}; received {dialect!r}.")
    if isinstance(answers, str):
        raise InputError(f"answers must be a list of strings; received the string {answers!r}. Wrap it in a list.")
    if not answers:
        raise InputError("The answer list is empty: a prediction cannot be scored. Give at least one answer.")
