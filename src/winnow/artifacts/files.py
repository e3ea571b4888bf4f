"""Atomic file writes, with a check for free disk space."""

import errno
import glob
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from winnow.artifacts.owners import has_ended, this_process
from winnow.errors import DiskFullError

_STALE_AFTER_SECONDS = 7 * 24 * 3600
_TEMPORARY_NAME = re.compile(r"\..+\.\d+-\d*@.*\.[a-z]+")
"""A dot, the final name, the process that writes the file, and what the file is for; see `temporary_path`."""


@contextmanager
def atomic_write(path: Path, *, required_bytes: int = 64 * 2**20) -> Iterator[Path]:
    """Provide a temporary path that is renamed to `path` on success and removed on failure.

    Raises:
        DiskFullError: Before anything is written, if fewer than `required_bytes` are free; or if the disk becomes full during
            the write.

    """
    path.parent.mkdir(parents=True, exist_ok=True)
    check_free_space(path.parent, required_bytes)
    partial = temporary_path(path, "partial")
    try:
        yield partial
        _synchronize(partial)
        partial.replace(path)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskFullError(
                f"The disk became full while writing {path}. The incomplete file was removed; free some space and run again."
            ) from error
        raise
    finally:
        if partial.is_dir():
            shutil.rmtree(partial)
        else:
            partial.unlink(missing_ok=True)


def _synchronize(path: Path) -> None:
    """Write a file to the disk, so that after a power failure its new name never refers to missing content."""
    if path.is_file():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def temporary_path(path: Path, kind: str) -> Path:
    """Return a temporary path beside `path` that is unique to this process, after removing those of ended processes.

    Args:
        path: File or folder to be written.
        kind: Suffix that tells what the temporary file is for.

    """
    prefix, suffix = f".{path.name}.", f".{kind}"
    for file in path.parent.glob(f"{glob.escape(prefix)}*{suffix}"):
        if _is_stale(file, file.name.removeprefix(prefix).removesuffix(suffix)):
            shutil.rmtree(file, ignore_errors=True) if file.is_dir() else file.unlink(missing_ok=True)
    return path.with_name(f"{prefix}{this_process()}{suffix}")


def is_temporary(path: Path) -> bool:
    """Return whether a path is, or is inside, a file or folder that `temporary_path` named."""
    return any(_TEMPORARY_NAME.fullmatch(part) for part in path.parts)


def _is_stale(file: Path, owner: str) -> bool:
    """Return whether the process that owns a temporary file has ended; on another host, whether the file is a week old."""
    ended = has_ended(owner)
    if ended is not None:
        return ended
    with suppress(FileNotFoundError):
        return time.time() - file.stat().st_mtime > _STALE_AFTER_SECONDS
    return False


def check_free_space(folder: Path, required_bytes: int) -> None:
    """Raise DiskFullError if fewer than `required_bytes` are free."""
    free = shutil.disk_usage(folder).free
    if free < required_bytes:
        raise DiskFullError(
            f"{folder} has only {free / 2**20:.0f} MiB of free space, but {required_bytes / 2**20:.0f} MiB are required."
        )
