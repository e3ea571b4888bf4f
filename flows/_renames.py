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
    "joint.learns": "joint.trainable",
    "report.by": "breakdown.field",
}
"""Settings and prefixes of settings."""
FORMER_CHOICES = {"experiment=re_rag/judgement": "experiment=re_rag/estimator"}


def current_overrides(overrides: Sequence[str]) -> list[str]:
    """Return overrides under the current names, and say on stderr which were former ones."""
    current: list[str] = []
    for override in overrides:
        name = _current(override)
        if name != override:
            print(f"{override}: this is now {name}; the former name works until version 0.3.", file=sys.stderr)
        if name.startswith("breakdown.field=") and name != override:
            current.append("breakdown=list")
        current.append(name)
    return current


def _current(override: str) -> str:
    if override in FORMER_CHOICES:
        return FORMER_CHOICES[override]
    sign = override[: len(override) - len(override.lstrip("+~"))]
    key, separator, value = override[len(sign) :].partition("=")
    for former, name in FORMER.items():
        if key == former or key.startswith(f"{former}."):
            return f"{sign}{name}{key.removeprefix(former)}{separator}{value}"
    return override
