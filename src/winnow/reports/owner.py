"""The file in a report's folder that says of which sweep, data set and corpus its pages are."""

import json
from collections.abc import Mapping
from pathlib import Path

from winnow.errors import ConfigError

OWNER = "sweep.json"
"""Name of the file."""


def read_owner(file: Path) -> Mapping[str, str]:
    """Return "sweep", "dataset" and "corpus" of a report's pages.

    Raises:
        ConfigError: If the file is not one of a report.
    """
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        owner = json.loads(text)
    except ValueError:
        owner = None
    if not isinstance(owner, dict) or not {"sweep", "dataset", "corpus"} <= owner.keys():
        raise ConfigError(
            f"{file} is not a report's: {text[:80]!r}. Move it away, or choose another report.out."
        )
    return {str(name): str(value) for name, value in owner.items()}
