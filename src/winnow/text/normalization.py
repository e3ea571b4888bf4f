"""Normalization of answers, and the answer "unknown"."""

import re
import string
from functools import lru_cache
from typing import Literal

import regex

UNKNOWN = "unknown"
"""Answer that prompts ask the model to give when it does not know."""

Dialect = Literal["squad", "squad_v2", "fid", "flashrag", "crag"]
"""Set of rules of one published evaluation (see `winnow.metrics.answer`)."""
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_FID_ARTICLES = regex.compile(r"\b(a|an|the)\b")
_DROP_PUNCTUATION = str.maketrans("", "", string.punctuation)


@lru_cache(maxsize=100_000)
def normalize(text: str, dialect: Dialect = "squad") -> str:
    """Lowercase a text; remove ASCII punctuation, articles and extra whitespace as SQuAD does."""
    articles = _FID_ARTICLES if dialect == "fid" else _ARTICLES
    return " ".join(articles.sub(" ", text.lower().translate(_DROP_PUNCTUATION)).split())


def normalize_candidate(answer: str) -> str:
    """Normalize an answer to compare it with others. What is nothing but an article or punctuation,
    such as the option "A" or the operator "+", stays.
    """
    bare_answer = answer.lower().strip(string.punctuation + string.whitespace)
    return normalize(answer) or bare_answer or answer.strip()
