"""How an artifact was made: its key, the digests of its inputs, the versions of code and libraries, its manifest."""

import hashlib
import json
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from winnow.artifacts.files import atomic_write


def write_manifest(folder: Path, *, key: str, settings: Mapping[str, Any], rows: int) -> None:
    """Write the record of how an artifact was made; its presence marks the artifact as finished."""
    body = {"key": key, "rows": rows, "git": git_revision(), "versions": versions(), "settings": settings}
    with atomic_write(folder / "manifest.json", needed=2**20) as partial:
        partial.write_text(json.dumps(body, indent=1, sort_keys=True) + "\n")


def is_done(folder: Path, key: str) -> bool:
    """Return whether the folder contains the finished artifact of this key."""
    manifest = folder / "manifest.json"
    return manifest.is_file() and json.loads(manifest.read_text())["key"] == key


def key_of(*parts: Any) -> str:
    """Return the first 12 hex digits of the SHA-256 of JSON-like parts, in canonical form."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:12]


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hex; cached while its size and modification time are unchanged."""
    state = path.stat()
    return _digest(str(path.resolve()), state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=10_000)
def _digest(path: str, size: int, changed: int) -> str:  # noqa: ARG001 (they make the memory forget)
    with Path(path).open("rb") as stream_:
        return hashlib.file_digest(stream_, "sha256").hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of what can change a number."""
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
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src", "flows", "conf")
    return f"{revision}{'+changed' if changed else ''}" if revision else "unknown"


def _git(*arguments: str) -> str:
    root = Path(__file__).resolve().parents[3]
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
