"""Former names of settings: they work until version 0.3, and a line says the new name."""

import sys
from collections.abc import Sequence

FORMER = {
    "weigh": "weighting",
    "grid.weigh": "grid.weighting",
    "corpus.reader": "corpus.parser",
    "dataset.reader": "dataset.parser",
    "judgement": "evaluate_estimator",
    "revisions": "stage_versions",
    "joint.settings.recompute": "joint.settings.gradient_caching",
    "joint.settings.explode_at": "joint.settings.max_loss",
    "estimator.engine.apart": "estimator.engine.separate_layers",
    "report.by": "breakdown.field",
}
"""Settings and prefixes of settings."""
FORMER_WORDS = {"experiment=re_rag/judgement": "experiment=re_rag/estimator"}


def current_words(words: Sequence[str]) -> list[str]:
    """Return overrides under the current names, and say on stderr which were former ones."""
    current: list[str] = []
    for word in words:
        name = _current(word)
        if name != word:
            print(f"{word}: this is now {name}; the former name works until version 0.3.", file=sys.stderr)
        if name.startswith("breakdown.field=") and name != word:
            current.append("breakdown=list")
        current.append(name)
    return current


def _current(word: str) -> str:
    if word in FORMER_WORDS:
        return FORMER_WORDS[word]
    sign = word[: len(word) - len(word.lstrip("+~"))]
    key, separator, value = word[len(sign) :].partition("=")
    for former, name in FORMER.items():
        if key == former or key.startswith(f"{former}."):
            return f"{sign}{name}{key.removeprefix(former)}{separator}{value}"
    return word
