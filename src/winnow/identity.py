"""Which settings of a component identify its results; components declare the exceptions, everything else counts.

A class may declare

- `speed_only`: settings that change how fast it runs and not what it computes, each with the reason;
- `input_files`: settings that name files or folders whose content is part of the identity;
- `model_paths`: settings that name models, identified by the digest of their weights;
- `resolve_settings(settings)`: a class method that returns the settings with every "auto" resolved.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def speed_only(component: type) -> Mapping[str, str]:
    """Return the settings of a class that do not identify its results, with the reason of each."""
    reasons: dict[str, str] = {}
    for base in reversed(component.__mro__):
        reasons |= base.__dict__.get("speed_only", {})
    return reasons


def input_files(component: type) -> Sequence[str]:
    """Return the settings of a class that name files or folders it reads."""
    names: Sequence[str] = getattr(component, "input_files", ())
    return names


def model_paths(component: type) -> Sequence[str]:
    """Return the settings of a class that name models."""
    names: Sequence[str] = getattr(component, "model_paths", ())
    return names


def resolved(component: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a component's settings with every "auto" resolved, if its class has any."""
    resolve = getattr(component, "resolve_settings", None)
    return dict(settings) if resolve is None else dict(resolve(settings))
