"""Replaces former names of settings, which work until version 0.3, and prints the current name."""

import sys
from collections.abc import Sequence

from winnow.protocols import MODEL_ROLES

FORMER_NAMES = {
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
    "breakdown.edges": "breakdown.upper_bounds",
    "breakdown.bins": "breakdown.num_bins",
    "retriever.engine.factory": "retriever.engine.index_factory",
    "retriever.engine.members.dense.factory": "retriever.engine.members.dense.index_factory",
    "retriever.engine.train_on": "retriever.engine.max_training_vectors",
    "retriever.engine.constant": "retriever.engine.rrf_k",
    "encoder.model.form": "encoder.model.passage_template",
    "estimator.engine.form": "estimator.engine.template",
    "estimator.engine.words": "estimator.engine.label_words",
    "retriever.engine.shard": "retriever.engine.block_size",
    "retriever.engine.shard_size": "retriever.engine.block_size",
    **{
        f"{role}.engine.{former}": f"{role}.engine.{name}"
        for role in MODEL_ROLES
        for former, name in {
            "window": "context_length",
            "key_variable": "api_key_variable",
            "pacing.concurrency": "pacing.max_concurrency",
            "pacing.connect_seconds": "pacing.connect_timeout",
            "pacing.read_seconds": "pacing.read_timeout",
            "pacing.attempts": "pacing.max_attempts",
            "pacing.first_wait": "pacing.initial_wait",
            "pacing.longest_wait": "pacing.max_wait",
            "pacing.trip": "pacing.failure_threshold",
            "pacing.openings": "pacing.max_pauses",
        }.items()
    },
}
"""Current keys by former keys. An entry also applies to all keys below it."""
FORMER_CHOICES = {
    "experiment=re_rag/judgement": "experiment=re_rag/estimator",
    "breakdown=list": "breakdown=meta",
}
"""Current overrides by former overrides that choose an option."""


def replace_former_names(overrides: Sequence[str]) -> list[str]:
    """Replace former names in overrides by the current ones, and print each replacement to stderr."""
    current: list[str] = []
    for override in overrides:
        replaced = _replace_former_name(override)
        if replaced != override:
            print(f"{override} has been renamed to {replaced}. The former name works until version 0.3.", file=sys.stderr)
        if replaced.startswith("breakdown.field=") and replaced != override:
            current.append("breakdown=meta")
        current.append(replaced)
    return current


def _replace_former_name(override: str) -> str:
    if override in FORMER_CHOICES:
        return FORMER_CHOICES[override]
    prefix = override[: len(override) - len(override.lstrip("+~"))]
    key, separator, value = override[len(prefix) :].partition("=")
    for former, name in FORMER_NAMES.items():
        if key == former or key.startswith(f"{former}."):
            return f"{prefix}{name}{key.removeprefix(former)}{separator}{value}"
    return override
