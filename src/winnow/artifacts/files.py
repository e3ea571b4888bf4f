"""Atomic file writes, with a check for free disk space."""

import errno
import fcntl
import glob
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from winnow.artifacts.owners import get_process_name, has_ended
from winnow.errors import DiskFullError

_log = logging.getLogger(__name__)
_STALE_AFTER_SECONDS = 7 * 24 * 3600
"""Age at which a temporary file of another host is removed."""
_LEFTOVER_SUFFIXES = (
    ".best",
    ".checkpoint",
    ".checkpoint.old",
    ".checkpoint.partial",
    ".checkpoints",
    ".partial",
)
_TEMPORARY_NAME = re.compile(r"\..+\.\d+-\d*@.*\.[a-z]+")
"""A dot, the final name, the writing process and the purpose; see `prepare_temporary_path`."""


@contextmanager
def hold_lock(path: Path, notice: str = "") -> Iterator[None]:
    """Keep other processes of this machine from holding the lock of a file; wait for one that does.

    Args:
        path: File, which is created in an existing folder.
        notice: Message that is logged before waiting.
    """
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if notice:
                _log.warning(notice)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def atomic_write(path: Path, *, required_bytes: int = 64 * 2**20) -> Iterator[Path]:
    """Provide a temporary path that is renamed to `path` on success and removed on failure.

    Args:
        path: File or folder to write.
        required_bytes: Free disk space that is required before the write.

    Raises:
        DiskFullError: If too little space is free before the write, or if the disk becomes full
            during the write.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    check_free_space(path.parent, required_bytes)
    partial = prepare_temporary_path(path, "partial")
    try:
        yield partial
        _flush_to_disk(partial)
        partial.replace(path)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskFullError(
                f"The disk became full while writing {path}. The incomplete file was removed. Free "
                "some space and run again."
            ) from error
        raise
    finally:
        if partial.is_dir():
            shutil.rmtree(partial)
        else:
            partial.unlink(missing_ok=True)


def iter_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, also of folders behind symbolic links, each folder once."""
    seen_paths = set()
    for root, names, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(root)
        if real in seen_paths:
            names.clear()
            continue
        seen_paths.add(real)
        yield from (Path(root, name) for name in files if Path(root, name).is_file())


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write texts to the files of a folder, given by name, each of them atomically."""
    for name, text in texts.items():
        with atomic_write(folder / name, required_bytes=2**24) as partial:
            partial.write_text(text, encoding="utf-8")


def _flush_to_disk(path: Path) -> None:
    """Flush a file or a folder's files, so that a power failure leaves no name without content."""
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def prepare_temporary_path(path: Path, kind: str) -> Path:
    """Return a temporary path next to `path` that is unique to this process.

    Temporary files of the same kind are removed first if the process that wrote them has ended.

    Args:
        path: File or folder to write.
        kind: Suffix that describes the purpose of the temporary file.
    """
    prefix, suffix = f".{path.name}.", f".{kind}"
    for file in path.parent.glob(f"{glob.escape(prefix)}*{suffix}"):
        owner = file.name.removeprefix(prefix).removesuffix(suffix)
        if not _is_stale(file, owner):
            continue
        if file.is_dir():
            shutil.rmtree(file, ignore_errors=True)
        else:
            file.unlink(missing_ok=True)
    return path.with_name(f"{prefix}{get_process_name()}{suffix}")


def remove_leftovers(folder: Path) -> None:
    """Remove the checkpoints and partial folders that a killed training left next to its folder."""
    for suffix in _LEFTOVER_SUFFIXES:
        shutil.rmtree(folder.with_name(folder.name + suffix), ignore_errors=True)


def is_temporary(path: Path) -> bool:
    """Return whether a path is, or is in, a file or folder named by `prepare_temporary_path`."""
    return any(_TEMPORARY_NAME.fullmatch(part) for part in path.parts)


def _is_stale(file: Path, owner: str) -> bool:
    """Return whether the owner of a file has ended or, if unknown, the file is over a week old."""
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
            f"{folder} has only {free / 2**20:.0f} MiB of free space, but "
            f"{required_bytes / 2**20:.0f} MiB are required. Free some space and run again."
        )
