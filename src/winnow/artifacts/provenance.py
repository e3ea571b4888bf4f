"""Provenance of artifacts: the manifest that records how each was made, and digests of its content.

The manifest is a JSON file in the artifact's folder. It is written last, so that an artifact with a
manifest is finished.
"""

import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from winnow.artifacts.curves import CURVES
from winnow.artifacts.files import atomic_write, is_temporary
from winnow.errors import ArtifactError
from winnow.identity.code import compute_module_digests

FileRecord = Mapping[str, Any]
"""Size, modification time and SHA-256 of a file."""
MANIFEST = "manifest.json"
"""File name of the manifest."""
ASSET_RECORD = ".asset.json"
"""Name of the file that records an asset's origin and the digest of every unpacked file."""
CONTENT_DIGEST = "content.sha256"
"""Name of the file that stands for a folder of randomly named files in the content digest."""
_RUN_RECORDS = (MANIFEST, CURVES, "training.json")
"""Names of files that record details of the run, such as its duration, rather than content."""


def write_manifest(
    folder: Path, *, key: str, settings: Mapping[str, Any], rows: int, started: float | None = None
) -> None:
    """Write the manifest of an artifact, which marks it as finished.

    Args:
        folder: Folder of the artifact.
        key: Identifier computed from the artifact's settings and inputs.
        settings: Settings and inputs of the artifact.
        rows: Number of rows of the artifact.
        started: Unix timestamp at which its stage started it, if known.
    """
    files = describe_files(folder)
    body = {
        "key": key,
        "rows": rows,
        "started": started,
        "finished": time.time(),
        "git": get_running_revision(),
        "modules": _record_modules(folder, settings),
        "versions": get_installed_versions(),
        "settings": settings,
        "files": files,
        "content": _compute_content_digest(files),
    }
    with atomic_write(folder / MANIFEST, required_bytes=2**20) as partial:
        partial.write_text(json.dumps(body, indent=1, sort_keys=True) + "\n")


def is_done(folder: Path, key: str) -> bool:
    """Return whether the folder contains the finished artifact with this key."""
    body = read_manifest(folder)
    return body.get("key") == key and "content" in body


def read_manifest(folder: Path) -> Mapping[str, Any]:
    """Return the manifest of an artifact, or an empty mapping if it has none.

    Raises:
        ArtifactError: If the file is not JSON.
    """
    manifest = folder / MANIFEST
    try:
        body: Mapping[str, Any] = json.loads(manifest.read_text()) if manifest.is_file() else {}
    except ValueError as error:
        raise ArtifactError(
            f"{manifest} is damaged ({error}). Remove the folder, and run the command again."
        ) from error
    return body


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten nested settings to values by dotted name. An empty mapping counts as a value."""
    if not isinstance(value, Mapping) or not value:
        return {prefix: value} if prefix else {}
    children = (
        (f"{prefix}.{name}" if prefix else str(name), child) for name, child in value.items()
    )
    return {
        leaf_name: leaf
        for name, child in children
        for leaf_name, leaf in flatten(child, name).items()
    }


def read_content_digest(folder: Path) -> str:
    """Return the digest of an artifact's content from its manifest, or "" if it is not finished."""
    return str(read_manifest(folder).get("content", ""))


def describe_code(manifests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe the code that made each artifact: its revision and the library versions that differ.

    Args:
        manifests: Manifests of the artifacts (see `read_manifest`).
    """
    all_versions = [manifest["versions"] for manifest in manifests]
    names = dict.fromkeys(name for versions in all_versions for name in versions)
    varying = [name for name in names if len({versions.get(name) for versions in all_versions}) > 1]
    return [
        ", ".join(
            [
                manifest["git"],
                *(f"{name} {manifest['versions'].get(name, 'absent')}" for name in varying),
            ]
        )
        for manifest in manifests
    ]


def is_code_mixed(folders: Sequence[Path]) -> bool:
    """Return whether artifacts rest on different code of a module, or different library versions.

    Revisions alone do not count: a commit may have changed nothing that is behind them. They do for
    artifacts whose modules were not recorded.
    """
    manifests = [read_manifest(folder) for folder in folders]
    if any(manifest["versions"] != manifests[0]["versions"] for manifest in manifests):
        return True
    if len({manifest["git"] for manifest in manifests}) < 2:
        return False
    files = {
        _find_code_file(folder, str(one.get("modules", "")))
        for folder, one in zip(folders, manifests, strict=True)
    }
    digests: dict[str, str] = {}
    for file in files:
        recorded_digests: dict[str, str] = json.loads(file.read_text()) if file.is_file() else {}
        if not recorded_digests or any(
            digests.setdefault(name, digest) != digest for name, digest in recorded_digests.items()
        ):
            return True
    return False


def _record_modules(folder: Path, settings: Mapping[str, Any]) -> str:
    """Record the digests of Winnow's modules behind an artifact, its stage and its components, and
    return their digest.

    They are in a file next to the folders of artifacts, which all artifacts of the same code share.
    A folder that no stage names, such as one of the user's, has none.
    """
    stage = settings.get("stage")
    if not stage:
        return ""
    targets = {
        str(value)
        for name, value in flatten_all(settings.get("inputs", settings))
        if name == "_target_"
    }
    starts = [*sorted(target.rpartition(".")[0] for target in targets), f"flows.{stage}"]
    digests = compute_module_digests(starts)
    key = compute_key(digests)
    file = _find_code_file(folder, key)
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file, required_bytes=2**20) as partial:
            partial.write_text(json.dumps(digests, indent=1, sort_keys=True) + "\n")
    return key


def _find_code_file(folder: Path, key: str) -> Path:
    """Return the file of module digests for an artifact's folder, such as data/predictions/cell."""
    return folder.resolve().parents[1] / "code" / f"{key}.json"


def flatten_all(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of every leaf of nested mappings and lists."""
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from flatten_all(child, str(key))
    elif isinstance(value, list | tuple):
        for child in value:
            yield from flatten_all(child, name)
    else:
        yield name, value


ComputeDigests = Callable[[tuple[str, ...]], Mapping[str, str]]
"""A function like `compute_module_digests`."""


def find_changed_modules(
    folder: Path, revision: str, compute: ComputeDigests | None = None
) -> list[str]:
    """Return the modules of Winnow behind an artifact whose code differs from the one that made it.

    Their revisions are the same, or the artifact would have another key. Comments and docstrings do
    not count. The list is empty for an artifact whose modules were not recorded, by an earlier
    version or on another machine.

    Args:
        folder: Folder of the artifact.
        revision: State of the code now (see `get_git_revision`), which made the artifact if its
            manifest names the same.
        compute: Function that computes the digests of modules, or returns those that it has
            computed for other artifacts.
    """
    manifest = read_manifest(folder)
    key = str(manifest.get("modules", ""))
    file = _find_code_file(folder, key)
    if not key or not file.is_file() or (manifest["git"] == revision and revision != "unknown"):
        return []
    recorded_digests: dict[str, str] = json.loads(file.read_text())
    current = (compute or compute_module_digests)(tuple(recorded_digests))
    return sorted(
        name
        for name in {*recorded_digests, *current}
        if recorded_digests.get(name) != current.get(name)
    )


def check_content(folder: Path) -> None:
    """Check that the files of a finished artifact are those that its stage wrote.

    A file with the recorded size and modification time is assumed to be unchanged. Other files are
    compared by their SHA-256.

    Raises:
        ArtifactError: If a file is missing or differs. The message names the first such file.
    """
    manifest = read_manifest(folder)
    for name, record in manifest.get("files", {}).items():
        if not is_unchanged(folder / name, record):
            change = "was modified" if (folder / name).is_file() else "was removed"
            stage = manifest["settings"].get("stage")
            command = f"`python -m flows.{stage}`" if stage else "its stage"
            raise ArtifactError(
                f"{folder / name} {change} after {command} wrote it, so it no longer matches the "
                f"recorded settings. Restore the file, or remove the folder {folder} and run "
                f"{command} again."
            )


def describe_files(folder: Path) -> dict[str, FileRecord]:
    """Return the size, mtime (ns) and SHA-256 of every file below a folder, by relative path."""
    return {name: _describe_file(folder / name) for name in list_files(folder)}


def list_files(folder: Path) -> list[str]:
    """List the files below a folder by relative path; a file itself has the path "".

    Temporary files, such as those that a killed process left behind, are not part of an artifact.
    """
    if folder.is_file():
        return [""]
    files = sorted(
        file.relative_to(folder)
        for file in folder.rglob("*")
        if file.is_file() and file.name not in _RUN_RECORDS
    )
    return [str(file) for file in files if not is_temporary(file)]


def _describe_file(file: Path) -> FileRecord:
    state = file.stat()
    return {
        "size": state.st_size,
        "mtime_ns": state.st_mtime_ns,
        "sha256": compute_file_digest(file),
    }


def is_unchanged(file: Path, record: FileRecord) -> bool:
    """Return whether a file exists and has the recorded content."""
    if not file.is_file():
        return False
    state = file.stat()
    if state.st_size != record["size"]:
        return False
    return bool(
        state.st_mtime_ns == record["mtime_ns"] or compute_file_digest(file) == record["sha256"]
    )


def _compute_content_digest(files: Mapping[str, FileRecord]) -> str:
    stated = {str(Path(name).parent) for name in files if Path(name).name == CONTENT_DIGEST}
    file_digests = {
        name: record["sha256"]
        for name, record in files.items()
        if Path(name).name == CONTENT_DIGEST or stated.isdisjoint(map(str, Path(name).parents))
    }
    return compute_key(file_digests)


def compute_key(*parts: Any) -> str:
    """Compute the first 12 hex digits of the SHA-256 of JSON-like values with sorted keys."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:12]


def compute_file_digest(path: Path) -> str:
    """Compute a file's hex SHA-256, cached until its size or modification time changes."""
    state = path.stat()
    return _compute_digest(str(path.resolve()), state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=10_000)
def _compute_digest(path: str, size_bytes: int, mtime_ns: int) -> str:  # noqa: ARG001 (parts of the cache key)
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_PACKAGES = (
    "winnow", "torch", "transformers", "tokenizers", "openvino", "openvino-genai", "peft", "trl",
    "bitsandbytes", "bm25s", "PyStemmer", "tantivy", "faiss-cpu", "faiss-gpu", "scikit-learn",
    "scipy", "numpy",
)  # fmt: skip
"""Packages that can affect results."""


def get_installed_versions() -> dict[str, str]:
    """Return the installed versions of the packages that can affect results."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


@cache
def get_running_revision() -> str:
    """Return the state of the code at the first call, which a command makes when it starts."""
    return get_git_revision()


def get_git_revision() -> str:
    """Return the commit of the code, or "unknown" outside a checkout.

    If files of src, flows or conf were changed since, "+" and a digest of their changes follow, so
    that two different edits are two states of the code.
    """
    revision = _run_git("rev-parse", "--short=12", "HEAD")
    if not revision:
        return "unknown"
    diff = _run_git("diff", "HEAD", "--", *_CODE_FOLDERS)
    untracked = _run_git(
        "ls-files", "--others", "--exclude-standard", "--", *_CODE_FOLDERS
    ).splitlines()
    if not diff and not untracked:
        return revision
    digest = hashlib.sha256(diff.encode())
    for name in filter(lambda name: (_get_root() / name).is_file(), untracked):
        digest.update(f"{name}:{compute_file_digest(_get_root() / name)}".encode())
    return f"{revision}+{digest.hexdigest()[:8]}"


_CODE_FOLDERS = ("src", "flows", "conf")


def _get_root() -> Path:
    return Path(__file__).resolve().parents[3]


def _run_git(*arguments: str) -> str:
    """Run a git command and return its output, or "" if git is not installed or fails."""
    command = ["git", "-C", str(_get_root()), "-c", "core.quotePath=false", *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""
