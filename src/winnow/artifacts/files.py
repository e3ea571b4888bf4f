"""Atomic file writes, with a check for free disk space."""

import errno
import glob
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from winnow.artifacts.owners import has_ended, this_process
from winnow.errors import DiskFullError

_ABANDONED_SECONDS = 7 * 24 * 3600


@contextmanager
def atomic_write(path: Path, *, needed: int = 64 * 2**20) -> Iterator[Path]:
    """Provide a temporary path that is renamed to `path` on success and removed on failure.

    Raises:
        DiskFullError: before anything is written, if fewer than `needed` bytes are free, or when the disk fills up.

    """
    path.parent.mkdir(parents=True, exist_ok=True)
    check_space(path.parent, needed)
    partial = partial_path(path, "partial")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskFullError(
                f"The disk filled up while writing {path}; nothing of it was kept. Free space, run again."
            ) from error
        raise
    finally:
        if partial.is_dir():
            shutil.rmtree(partial)
        else:
            partial.unlink(missing_ok=True)


def partial_path(path: Path, kind: str) -> Path:
    """Return this process's temporary name for a file, and remove abandoned ones: see `_is_abandoned`."""
    prefix, suffix = f".{path.name}.", f".{kind}"
    for file in path.parent.glob(f"{glob.escape(prefix)}*{suffix}"):
        if _is_abandoned(file, file.name.removeprefix(prefix).removesuffix(suffix)):
            shutil.rmtree(file, ignore_errors=True) if file.is_dir() else file.unlink(missing_ok=True)
    return path.with_name(f"{prefix}{this_process()}{suffix}")


def _is_abandoned(file: Path, owner: str) -> bool:
    """Return whether a temporary file's process has ended, or, on another host, has not written to it for a week."""
    ended = has_ended(owner)
    if ended is not None:
        return ended
    with suppress(FileNotFoundError):
        return time.time() - file.stat().st_mtime > _ABANDONED_SECONDS
    return False


def check_space(folder: Path, needed: int) -> None:
    """Raise DiskFullError if fewer than `needed` bytes are free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DiskFullError(f"{folder} has {free / 2**20:.0f} MB free, {needed / 2**20:.0f} MB are needed. Free space first.")
