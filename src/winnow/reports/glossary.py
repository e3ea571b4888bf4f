"""What the columns of a report mean, from the documentation of its metrics."""

import inspect
import re
from collections.abc import Iterable
from dataclasses import MISSING, fields

from winnow.metrics.base import Metric
from winnow.metrics.intervals import UNDEFINED

_MOST_CHARACTERS = 20
"""Length of a text up to which it is a choice of a metric, and no template."""
_GENERAL = {
    "gold": (
        "Where the gold passage stands in the prompt, by the name of the placement (conf/placement)"
    ),
    UNDEFINED: "Undefined",
}


def build_glossary(metrics: Iterable[Metric]) -> dict[str, str]:
    """Return what each column of a metric means, by its heading."""
    return {metric.heading: describe_metric(metric) for metric in metrics} | _GENERAL


def describe_metric(metric: Metric) -> str:
    """Return a metric's first docstring paragraph with values filled in, and the other settings."""
    text = (inspect.getdoc(type(metric)) or "").partition("\n\n")[0].replace("\n", " ").rstrip(".")
    numeric_fields = {
        field.name
        for field in fields(metric)
        if isinstance(getattr(metric, field.name), int | float)
    }
    in_text = numeric_fields & set(re.findall(r"`(\w+)`", text))
    text = re.sub(
        r"`(\w+)`",
        lambda match: f"{getattr(metric, match[1]):g}" if match[1] in in_text else match[0],
        text,
    )
    base_fields = {field.name for field in fields(Metric)}
    settings = []
    for field in fields(metric):
        value = getattr(metric, field.name)
        is_choice = isinstance(value, str) and 0 < len(value) <= _MOST_CHARACTERS
        is_changed = (
            isinstance(value, int | float)
            and field.default is not MISSING
            and value != field.default
        )
        if field.name not in base_fields | in_text and (is_choice or is_changed):
            settings.append(f"{field.name}: {value}")
    return f"{text} ({', '.join(settings)})" if settings else text
