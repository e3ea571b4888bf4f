"""The artifacts from which an artifact was made, by the identities that its manifest records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.settings.typed import Settings
from winnow.artifacts.provenance import flatten, read_manifest


def list_roots(settings: Settings) -> list[Path]:
    """Return the parent folders of all artifacts."""
    return [Path(settings.paths.data), Path(settings.paths.models)]


class ArtifactIndex:
    """The artifacts of a project by their keys, listed once."""

    def __init__(self, roots: Iterable[Path]) -> None:
        """List the folders of artifacts below data/<kind>/ and models/<kind>/."""
        self._folders: dict[str, list[Path]] = {}
        for root in roots:
            for folder in sorted(root.glob("*/*-*")):
                self._folders.setdefault(folder.name.rpartition("-")[2], []).append(folder)

    def find(self, value: Any) -> Path | None:
        """Return the folder of an artifact recorded as "key:content", or None for other values."""
        key, separator, content = value.partition(":") if isinstance(value, str) else ("", "", "")
        if not separator or len(key) != 12 or len(content) != 12:
            return None
        return next(
            (
                one
                for one in self._folders.get(key, ())
                if read_manifest(one).get("content") == content
            ),
            None,
        )

    def collect(self, folders: Sequence[Path]) -> list[Path]:
        """Return these artifacts and all from which they were made, each once."""
        artifacts: dict[Path, None] = dict.fromkeys(folders)
        stack = list(folders)
        while stack:
            new = [
                folder
                for folder in self._iter_inputs(read_manifest(stack.pop()))
                if folder not in artifacts
            ]
            artifacts |= dict.fromkeys(new)
            stack += new
        return list(artifacts)

    def _iter_inputs(self, manifest: Mapping[str, Any]) -> Iterator[Path]:
        for value in flatten(manifest.get("settings", {}).get("inputs", {})).values():
            if (folder := self.find(value)) is not None:
                yield folder
