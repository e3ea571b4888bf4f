"""Files of assets, copied from archives and folders without leaving the folder of the asset."""

import fnmatch
import os
import re
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from winnow.errors import AssetError

_CHUNK_BYTES = 2**20
_WILDCARD = re.compile(r"[*?\[]")


def describe_excess_size(address: str, size: int) -> str:
    """Build the message for a download or unpacked files above an asset's maximum size in bytes."""
    return (
        f"{address} is larger than {size:,} bytes. If that is right, raise `size` in the settings "
        "of the asset. As much disk space must then be free."
    )


@dataclass(frozen=True, slots=True)
class Selection:
    """The members of an archive or folder that are copied.

    Attributes:
        address: Address of the asset, for messages.
        members: Patterns of the names; empty for all.
        size: Maximum number of bytes.
    """

    address: str
    members: Sequence[str]
    size: int


def unpack(file: Path, name: str, selection: Selection, folder: Path) -> None:
    """Copy selected members of an archive (except links) or folder, or a plain file as `name`."""
    if file.is_dir():
        paths = sorted(_iter_files(file))
        members = ((one.relative_to(file).as_posix(), partial(_open_binary, one)) for one in paths)
        _copy_members(members, selection, folder)
    elif zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            entries = [
                entry for entry in archive.infolist() if not stat.S_ISLNK(entry.external_attr >> 16)
            ]
            zip_members = ((entry.filename, partial(archive.open, entry)) for entry in entries)
            _copy_members(zip_members, selection, folder)
    elif tarfile.is_tarfile(file):
        with tarfile.open(file) as tar:
            files = [member for member in tar.getmembers() if member.isreg()]
            tar_members = ((member.name, partial(tar.extractfile, member)) for member in files)
            _copy_members(tar_members, selection, folder)
    else:
        shutil.copy(file, folder / name)


def _iter_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, also behind links, but not those behind a link to a folder
    above it.
    """
    for parent, folders, names in os.walk(folder, followlinks=True):
        path = Path(parent).resolve()
        folders[:] = [one for one in folders if not path.is_relative_to((path / one).resolve())]
        yield from (Path(parent, name) for name in names)


def _open_binary(path: Path) -> IO[bytes]:
    return path.open("rb")


def _copy_members(
    members: Iterator[tuple[str, Callable[[], IO[bytes] | None]]],
    selection: Selection,
    folder: Path,
) -> None:
    """Copy archive members, given by name and opening function, that match the asset's patterns."""
    remaining_bytes = selection.size
    patterns = selection.members or ["*"]
    for name, open_member in members:
        matching = next((pattern for pattern in patterns if fnmatch.fnmatch(name, pattern)), None)
        if matching is None or name.endswith("/"):
            continue
        fixed_folder = _WILDCARD.split(matching)[0].rpartition("/")[0]
        relative = (
            PurePosixPath(name).relative_to(fixed_folder) if fixed_folder else PurePosixPath(name)
        )
        if ".." in relative.parts or relative.is_absolute():
            raise AssetError(
                f"{name!r} in {selection.address} has a path outside the folder of the asset, and "
                "was not extracted."
            )
        target = folder / relative
        if target.exists():
            raise AssetError(
                f"Two members of {selection.address} would become {relative}, the second of them "
                f"{name!r}. Name a folder that they share in `members`, such as ['nq/*']."
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        source = open_member()
        if source is not None:
            with closing(source), target.open("wb") as out:
                while chunk := source.read(_CHUNK_BYTES):
                    remaining_bytes -= len(chunk)
                    if remaining_bytes < 0:
                        raise AssetError(describe_excess_size(selection.address, selection.size))
                    out.write(chunk)
