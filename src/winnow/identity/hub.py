"""Names of repositories on the Hugging Face hub in settings."""

import re
from dataclasses import dataclass
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}")
_FILE_FORMATS = frozenset({"json", "csv", "parquet", "arrow", "text", "xml", "webdataset"})
"""Names of file formats that `datasets.load_dataset` accepts in place of the name of a data set."""


@dataclass(frozen=True, slots=True)
class HubName:
    """The name and revision of a Hugging Face hub repository. An empty revision is the latest."""

    name: str
    revision: str = ""

    @property
    def is_pinned(self) -> bool:
        """Return whether the revision is a commit, which never changes."""
        return _COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        """Return the name as written in settings: "owner/name@revision" or "owner/name"."""
        return f"{self.name}@{self.revision}" if self.revision else self.name


def parse_model_name(path: str) -> HubName | None:
    """Return the hub name of a model, or None if `path` is a path on this machine."""
    name, _, revision = path.partition("@")
    is_local = (
        Path(path).exists()
        or name.count("/") != 1
        or name.startswith((".", "/"))
        or name.endswith(".gguf")
    )
    return None if is_local else HubName(name, revision)


def parse_dataset_name(path: str) -> HubName | None:
    """Return the hub name of a data set, or None if `path` is a local path or a file format."""
    name, _, revision = path.partition("@")
    is_local = (
        Path(path).exists()
        or name.count("/") > 1
        or name.startswith((".", "/"))
        or name in _FILE_FORMATS
    )
    return None if is_local else HubName(name, revision)
