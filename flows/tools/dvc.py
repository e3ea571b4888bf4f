"""Files of the project that DVC tracks: hard links to finished artifacts, in the folder tracked/.

`data/`, `models/` and `assets/` hold the artifacts of all settings side by side, and grow with
every command. DVC tracks tracked/<stage>/ instead, which holds only the artifacts of one stage in
dvc.yaml, below the paths that they have in the project:
tracked/index/data/index/bm25-0123456789ab/. After `dvc pull`, the next command links them back to
these paths.
"""

import errno
import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from winnow.artifacts.files import atomic_write, hold_lock, is_temporary, prepare_temporary_path
from winnow.artifacts.provenance import ASSET_RECORD, MANIFEST, check_content, read_content_digest
from winnow.assets import is_unchanged_asset
from winnow.errors import ArtifactError, ConfigError
from winnow.ledger.merging import import_calls
from winnow.ledger.stores import is_server, open_store

TRACKED = Path("tracked")
"""Folder of the tracked artifacts."""
CALLS = "calls.jsonl.gz"
"""Name of the file with exported calls in an artifact of the stage `calls`."""
_MARKERS = (MANIFEST, ASSET_RECORD)
"""Names of the files that mark an artifact or an asset as complete."""


def check_target(target: Path) -> None:
    """Raise ConfigError unless a folder is one directly below TRACKED; its content is replaced."""
    if target.parent != TRACKED or target.name in ("", ".", ".."):
        raise ConfigError(
            f"--track takes a folder directly below {TRACKED}/, such as {TRACKED}/index; received "
            f"{target}."
        )


def track_artifacts(target: Path, folders: Iterable[Path]) -> None:
    """Replace a tracked folder by links to artifacts.

    Args:
        target: Tracked folder of a stage, such as tracked/index.
        folders: Folders of finished artifacts.

    Raises:
        ConfigError: If an artifact is outside the project's folder.
    """
    check_target(target)
    root = Path.cwd()
    with atomic_write(target, required_bytes=2**20) as partial:
        partial.mkdir()
        for folder in folders:
            path = folder.resolve()
            if not path.is_relative_to(root):
                raise ConfigError(
                    f"--track: {folder} is outside the project's folder {root}, so DVC cannot "
                    "track it here. Set paths.data, paths.models and the paths of the assets to "
                    "folders within the project."
                )
            _link_files(path, partial / path.relative_to(root))
        former = prepare_temporary_path(target, "former")
        if target.exists():
            target.rename(former)
    shutil.rmtree(former, ignore_errors=True)


def restore_artifacts(ledger: str) -> None:
    """Link tracked artifacts that the project lacks, and import the tracked calls into the ledger.

    A tracked artifact that was changed by hand is not linked, so that its stage can make it again.

    Args:
        ledger: URL of the ledger.
    """
    if not TRACKED.is_dir():
        return
    with hold_lock(TRACKED / ".lock"):
        has_ledger = is_server(ledger) or Path(ledger.removeprefix("sqlite:///")).is_file()
        for source in _find_tracked_artifacts():
            folder = Path(*source.parts[2:])
            if (source / CALLS).is_file() and not (has_ledger and folder.exists()):
                print(f"{source}, imported into {ledger}: {_import_calls(ledger, source / CALLS)}")
            if folder.exists():
                _warn_of_difference(source, folder)
            elif _is_unchanged(source, folder):
                with atomic_write(folder, required_bytes=2**20) as partial:
                    _link_files(source, partial)
                print(f"{folder} restored from {source}; to compute it again, remove both")


def _warn_of_difference(source: Path, folder: Path) -> None:
    """Print a line if an artifact was rebuilt, outside DVC, since it was tracked."""
    if (folder / MANIFEST).exists() and (folder / MANIFEST).samefile(source / MANIFEST):
        return
    present, tracked = read_content_digest(folder), read_content_digest(source)
    if present and tracked and present != tracked:
        print(
            f"{folder} differs from the version that DVC tracks in {source}. `dvc repro --force "
            f"{source.parts[1]}` tracks the present one; remove {folder} to use the tracked one."
        )


def _is_unchanged(source: Path, folder: Path) -> bool:
    """Return whether a tracked artifact or asset is unchanged, and print a line if it is not."""
    try:
        if (source / ASSET_RECORD).is_file():
            record = json.loads((source / ASSET_RECORD).read_text())
            origin = {name: value for name, value in record.items() if name != "files"}
            is_unchanged = is_unchanged_asset(source, origin)
            problem = "A file was modified or is missing."
        else:
            check_content(source)
            is_unchanged, problem = True, ""
    except (ArtifactError, ValueError, KeyError, AttributeError, TypeError) as error:
        is_unchanged, problem = False, str(error)
    if not is_unchanged:
        print(
            f"{folder} is not restored from {source}. {problem} `dvc pull` restores tracked files."
        )
    return is_unchanged


def _find_tracked_artifacts() -> Sequence[Path]:
    """Return the folders of the complete artifacts and assets in the folders of the stages."""
    files = {
        file
        for marker in _MARKERS
        for file in TRACKED.glob(f"*/**/{marker}")
        if not is_temporary(file)
    }
    folders = {file.parent for file in files if len(file.parts) > 3}
    return sorted(folder for folder in folders if folders.isdisjoint(folder.parents))


def _import_calls(url: str, file: Path) -> str:
    """Add the calls of an exported file that the ledger lacks, and return what was added."""
    with open_store(url) as ledger:
        return import_calls(ledger, file).describe()


def _link_files(source: Path, target: Path) -> None:
    """Link an artifact's files into a new folder, or copy them if hard links are impossible."""
    for file in source.rglob("*"):
        name = file.relative_to(source)
        if file.is_file() and not is_temporary(name):
            link = target / name
            link.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(file, link)
            except OSError as error:
                if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                    raise
                shutil.copy2(file, link)
