"""Files that appear whole or not at all: atomic writes, and a check for free space before they begin."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from winnow.errors import DiskFullError


@contextmanager
def atomic_write(path: Path, *, needed: int = 64 * 2**20) -> Iterator[Path]:
    """Provide a temporary path that is renamed to `path` at the end, or removed on failure.

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
    """Return this process's temporary name for a file, and remove those of processes that have ended."""
    for old in path.parent.glob(f".{path.name}.*.{kind}"):
        if not Path(f"/proc/{old.name.split('.')[-2]}").exists():
            shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
    return path.with_name(f".{path.name}.{os.getpid()}.{kind}")


def check_space(folder: Path, needed: int) -> None:
    """Raise DiskFullError if fewer than `needed` bytes are free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DiskFullError(f"{folder} has {free / 2**20:.0f} MB free, {needed / 2**20:.0f} MB are needed. Free space first.")
