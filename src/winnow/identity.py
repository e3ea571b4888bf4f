"""Which settings of a component identify its results; components declare the exceptions, everything else counts.

A class may declare

- `speed_only`: settings that change how fast it runs and not what it computes, each with the reason;
- `input_files`: settings that name files or folders whose content is part of the identity ("options.data_files" for a setting
  within another one; lists and mappings of names are followed);
- `model_paths`: settings that name models, identified by the digest of their weights, or by their commit on the hub;
- `dataset_names`: settings that may name data sets on the hub, identified by their commit;
- `resolve_settings(settings)`: a class method that returns the settings with every "auto" resolved.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_COMMIT = re.compile(r"[0-9a-f]{40}")
_FILE_FORMATS = frozenset({"json", "csv", "parquet", "arrow", "text", "xml", "webdataset"})
"""What `datasets.load_dataset` accepts in place of a name: builders for files."""


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


def dataset_names(component: type) -> Sequence[str]:
    """Return the settings of a class that may name data sets on the hub."""
    names: Sequence[str] = getattr(component, "dataset_names", ())
    return names


@dataclass(frozen=True, slots=True)
class HubName:
    """A repository on the Hugging Face hub at a revision: "owner/name@revision"; an empty revision means the latest."""

    name: str
    revision: str = ""

    @property
    def is_pinned(self) -> bool:
        """Return whether the revision is a commit, which never changes."""
        return _COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        """Return the name as it is written in settings."""
        return f"{self.name}@{self.revision}" if self.revision else self.name


def model_name(path: str) -> HubName | None:
    """Return the hub's name of a model, or None for a path on this machine."""
    name, _, revision = path.partition("@")
    local = Path(path).exists() or name.count("/") != 1 or name.startswith((".", "/")) or name.endswith(".gguf")
    return None if local else HubName(name, revision)


def dataset_name(path: str) -> HubName | None:
    """Return the hub's name of a data set, or None for a path on this machine or a file format."""
    name, _, revision = path.partition("@")
    local = Path(path).exists() or name.count("/") > 1 or name.startswith((".", "/")) or name in _FILE_FORMATS
    return None if local else HubName(name, revision)
