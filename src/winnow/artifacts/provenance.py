"""How an artifact was made: its key, the digests of its inputs, the versions of code and libraries, its manifest."""

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from winnow.artifacts.files import atomic_write, is_temporary
from winnow.errors import ArtifactError

FileRecord = Mapping[str, Any]
"""Size, modification time and SHA-256 of a file."""


MANIFEST = "manifest.json"
_RUN_RECORDS = (MANIFEST, "training.json")
"""Files excluded from the digest, because they record details of the run such as its duration."""


def write_manifest(folder: Path, *, key: str, settings: Mapping[str, Any], rows: int) -> None:
    """Write the record of how an artifact was made and what it contains; its presence marks the artifact as finished."""
    files = describe_files(folder)
    body = {
        "key": key,
        "rows": rows,
        "git": git_revision(),
        "versions": versions(),
        "settings": settings,
        "files": files,
        "content": _content_digest(files),
    }
    with atomic_write(folder / MANIFEST, required_bytes=2**20) as partial:
        partial.write_text(json.dumps(body, indent=1, sort_keys=True) + "\n")


def is_done(folder: Path, key: str) -> bool:
    """Return whether the folder contains the finished artifact of this key."""
    body = read_manifest(folder)
    return body.get("key") == key and "content" in body


def read_manifest(folder: Path) -> Mapping[str, Any]:
    """Return the manifest of an artifact, or an empty mapping if it has none."""
    manifest = folder / MANIFEST
    body: Mapping[str, Any] = json.loads(manifest.read_text()) if manifest.is_file() else {}
    return body


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return the leaves of nested settings by dotted name; an empty mapping is a leaf."""
    if not isinstance(value, Mapping) or not value:
        return {prefix: value} if prefix else {}
    parts = ((f"{prefix}.{name}" if prefix else str(name), inner) for name, inner in value.items())
    return {leaf: inner for name, nested in parts for leaf, inner in flatten(nested, name).items()}


def content_digest(folder: Path) -> str:
    """Return the digest of a finished artifact's content, as its manifest records it; "" for an unfinished one."""
    return str(read_manifest(folder).get("content", ""))


def describe_code(manifests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe the code that made each artifact: its revision, and the versions in which the artifacts differ."""
    versions_of = [manifest["versions"] for manifest in manifests]
    names = dict.fromkeys(name for installed in versions_of for name in installed)
    varying = [name for name in names if len({installed.get(name) for installed in versions_of}) > 1]
    return [
        ", ".join([manifest["git"], *(f"{name} {manifest['versions'].get(name, 'absent')}" for name in varying)])
        for manifest in manifests
    ]


def check_content(folder: Path) -> None:
    """Check that the files of a finished artifact are those that its stage wrote.

    A file of the recorded size and modification time is taken to be unchanged; others are read.

    Raises:
        ArtifactError: naming the first file that is missing or differs.

    """
    for name, record in read_manifest(folder).get("files", {}).items():
        if not is_unchanged(folder / name, record):
            what = "was modified" if (folder / name).is_file() else "was removed"
            raise ArtifactError(
                f"{folder / name} {what} after its stage finished, so it no longer matches the recorded settings. Restore "
                f"the file, or remove the folder {folder} and run its stage again."
            )


def describe_files(folder: Path) -> dict[str, FileRecord]:
    """Return size, modification time (ns) and SHA-256 of every file below a folder, by relative name.

    Temporary files, such as those that a killed process left, are no part of an artifact.
    """
    files = sorted(file.relative_to(folder) for file in folder.rglob("*") if file.is_file() and file.name not in _RUN_RECORDS)
    return {str(file): _describe_file(folder / file) for file in files if not is_temporary(file)}


def _describe_file(file: Path) -> FileRecord:
    state = file.stat()
    return {"size": state.st_size, "mtime_ns": state.st_mtime_ns, "sha256": file_digest(file)}


def is_unchanged(file: Path, record: FileRecord) -> bool:
    """Return whether a file has the content that was recorded."""
    if not file.is_file():
        return False
    state = file.stat()
    if state.st_size != record["size"]:
        return False
    return bool(state.st_mtime_ns == record["mtime_ns"] or file_digest(file) == record["sha256"])


def _content_digest(files: Mapping[str, FileRecord]) -> str:
    return compute_key({name: record["sha256"] for name, record in files.items()})


def compute_key(*parts: Any) -> str:
    """Return the first 12 hex digits of the SHA-256 of JSON-like parts, in canonical form."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:12]


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hex; cached while its size and modification time are unchanged."""
    state = path.stat()
    return _digest(str(path.resolve()), state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=10_000)
def _digest(path: str, size: int, changed: int) -> str:  # noqa: ARG001 (part of the cache key, so that a changed file is hashed again)
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def versions() -> dict[str, str]:
    """Return the installed versions of the packages that can affect results."""
    installed = {}
    for name in ("winnow", "torch", "transformers", "bm25s", "faiss-cpu", "numpy"):
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed


def git_revision() -> str:
    """Return the code's revision ("unknown" outside a checkout), marked where files were changed."""
    revision = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=normal", "--", "src", "flows", "conf")
    return f"{revision}{'+changed' if changed else ''}" if revision else "unknown"


def _git(*arguments: str) -> str:
    """Return the output of a git command, or "" if git is not installed or fails."""
    root = Path(__file__).resolve().parents[3]
    command = ["git", "-C", str(root), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""
