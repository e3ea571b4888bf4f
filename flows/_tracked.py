"""Files of the project that DVC tracks: hard links to finished artifacts, in the folder tracked/.

`data/`, `models/` and `assets/` hold the artifacts of all settings side by side, and grow with every command. DVC tracks
tracked/<stage>/ instead, which holds only the artifacts of one stage in dvc.yaml, below the paths that they have in the
project: tracked/index/data/index/bm25-0123456789ab/. After `dvc pull`, the next command links them back to these paths.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from winnow.artifacts.files import atomic_write, is_temporary
from winnow.artifacts.provenance import MANIFEST, check_content
from winnow.assets import RECORD_NAME
from winnow.errors import ArtifactError, ConfigError
from winnow.ledger import tools
from winnow.ledger.sqlite import SqliteStore
from winnow.ledger.stores import open_store

TRACKED = Path("tracked")
"""Folder of the tracked artifacts."""
CALLS = "calls.jsonl.gz"
"""Name of the file with exported calls in an artifact of the stage `calls`."""
_MARKERS = (MANIFEST, RECORD_NAME)
"""Names of the files whose presence means that an artifact or an asset is complete."""


def track_artifacts(target: Path, folders: Iterable[Path]) -> None:
    """Replace the content of a tracked folder by links to artifacts.

    Args:
        target: Tracked folder of a stage, such as tracked/index.
        folders: Folders of finished artifacts.

    Raises:
        ConfigError: If an artifact is outside the project's folder.

    """
    root = Path.cwd()
    with atomic_write(target, required_bytes=2**20) as partial:
        partial.mkdir()
        for folder in folders:
            path = folder.resolve()
            if not path.is_relative_to(root):
                raise ConfigError(
                    f"--track: {folder} is outside the project's folder {root}, so DVC cannot track it here. Set paths.data, "
                    "paths.models and the paths of the assets to folders within the project."
                )
            _link_files(path, partial / path.relative_to(root))
        if target.exists():
            shutil.rmtree(target)


def restore_artifacts(ledger: str) -> None:
    """Link the tracked artifacts that the project lacks to their own paths, and import the tracked calls into the ledger.

    A tracked artifact that was changed by hand is not linked, so that its stage can make it again.

    Args:
        ledger: URL of the ledger.

    """
    for source in _find_tracked_artifacts():
        folder = Path(*source.parts[2:])
        if any((folder / marker).is_file() for marker in _MARKERS):
            continue
        try:
            check_content(source)
        except ArtifactError as error:
            print(f"{folder} is not restored. {error} `dvc pull` restores tracked files.")
            continue
        if (source / CALLS).is_file():
            print(f"{_import_calls(ledger, source / CALLS)} calls of {source} imported into {ledger}")
        _link_files(source, folder)
        print(f"{folder} restored from {TRACKED}")


def _find_tracked_artifacts() -> Sequence[Path]:
    """Return the folders of the complete artifacts below TRACKED."""
    if not TRACKED.is_dir():
        return ()
    return sorted({file.parent for marker in _MARKERS for file in TRACKED.rglob(marker) if not is_temporary(file)})


def _import_calls(url: str, file: Path) -> int:
    """Add the calls of an exported file that the ledger lacks, and return the number of added calls."""
    store = open_store(url)
    if not isinstance(store, SqliteStore):
        raise ConfigError(f"paths.ledger={url!r} cannot import the calls in {file}. Use a ledger in an SQLite file.")
    with store as ledger:
        return tools.import_calls(ledger, file)


def _link_files(source: Path, target: Path) -> None:
    """Link the files of a complete artifact; the files that mark it as complete come last."""
    for file in sorted(_iter_files(source), key=lambda path: path.name in _MARKERS):
        link = target / file.relative_to(source)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        _link_or_copy(file, link)


def _iter_files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.is_file() and not is_temporary(file.relative_to(folder)))


def _link_or_copy(source: Path, link: Path) -> None:
    """Create a hard link, or a copy where the file system has no hard links."""
    try:
        os.link(source, link)
    except OSError:
        shutil.copy2(source, link)
