"""Assets, which are data and models in folders: fetched once, unpacked, and never changed."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from winnow.artifacts.files import atomic_write, check_free_space, hold_lock
from winnow.artifacts.provenance import (
    ASSET_RECORD,
    FileRecord,
    compute_file_digest,
    describe_files,
    is_unchanged,
    list_files,
)
from winnow.downloads import RECORDED, Asset, ProgressCallback, download, download_snapshot
from winnow.errors import AssetError
from winnow.unpacking import Selection, unpack


def fetch_asset(asset: Asset, downloads: Path, advance: ProgressCallback = lambda _: None) -> bool:
    """Download an asset and unpack it to its folder, unless the folder already contains it.

    Args:
        asset: Asset to download.
        downloads: Folder for downloaded files. A partial download is kept there, and the next call
            resumes it.
        advance: Function that is called with the number of bytes downloaded since its last call.

    Returns:
        Whether the asset was downloaded.

    Raises:
        AssetError: If the asset cannot be downloaded, is too large or does not match its checksum,
            or if its folder contains other files or files that were changed since they were
            unpacked. The files in the folder are then kept.
    """
    is_whole = is_unchanged_asset(Path(asset.path), _apply_recorded_checksum(asset).source)
    if is_whole and not _is_origin_changed(asset):
        return False
    downloads.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(str(Path(asset.path).resolve()).encode()).hexdigest()[:16]
    with hold_lock(downloads / f".{name}.lock", "Another process fetches this asset. Waiting."):
        return _fetch_asset(asset, downloads, advance)


def _fetch_asset(asset: Asset, downloads: Path, advance: ProgressCallback) -> bool:
    """Fetch an asset like `fetch_asset`, which holds the lock of its folder."""
    folder = Path(asset.path)
    asset = _apply_recorded_checksum(asset)
    if recorded_source := _read_source(folder):
        if not is_unchanged_asset(folder, recorded_source):
            raise AssetError(
                f"The files in {folder} have changed since they were unpacked from "
                f"{recorded_source['address']}. Remove the folder to download them again, or keep "
                "your own copy in another folder."
            )
        if recorded_source == asset.source and not _is_origin_changed(asset):
            return False
    if folder.is_dir() and any(folder.iterdir()) and not (folder / ASSET_RECORD).exists():
        raise AssetError(
            f"{folder} contains files that were not fetched from {asset.address}, and would be "
            "replaced. Move them to another folder and name it in the settings, or remove the "
            "folder to download the asset."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    check_free_space(folder.parent, asset.size)
    with atomic_write(folder, required_bytes=asset.size) as fresh:
        fresh.mkdir()
        if asset.scheme == "hf":
            snapshot, names = download_snapshot(asset, downloads)
            for name in names:  # other files are of an interrupted download with other members
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(snapshot / name, fresh / name)
        else:
            file = download(asset, downloads, advance)
            if asset.is_unpinned:
                asset = replace(asset, sha256=compute_file_digest(file))
            name = PurePosixPath(asset.location.split("?")[0]).name
            is_page = asset.scheme in ("http", "https")
            selection = Selection(asset.address, asset.members, asset.size)
            unpack(file, name if is_page else file.name, selection, fresh)
        if not any(fresh.iterdir()):
            raise AssetError(
                f"{asset.address} contains no file that matches {list(asset.members)}. Correct "
                "`members`."
            )
        origin = describe_files(Path(asset.location)) if asset.scheme == "file" else {}
        files = {"origin": origin, "files": describe_files(fresh)}
        (fresh / ASSET_RECORD).write_text(json.dumps({**asset.source, **files}))
        shutil.rmtree(folder, ignore_errors=True)
    if asset.scheme == "hf":
        shutil.rmtree(snapshot)
    elif asset.scheme != "file":
        file.unlink()
        file.with_suffix(".version").unlink(missing_ok=True)
    return True


def is_present(asset: Asset) -> bool:
    """Return whether an asset has been unpacked to its folder, from a local path as it is now."""
    files = _read_recorded_files(Path(asset.path), _apply_recorded_checksum(asset).source)
    return bool(files) and not _is_origin_changed(asset)


def _is_origin_changed(asset: Asset) -> bool:
    """Return whether the local path of an asset without a checksum has changed, but is there."""
    path = Path(asset.location)
    if asset.scheme != "file" or asset.sha256 or not path.exists():
        return False
    records = _read_record(Path(asset.path)).get("origin", {})
    is_same = all(is_unchanged(path / name, record) for name, record in records.items())
    return bool(records) and (list(records) != list_files(path) or not is_same)


def _apply_recorded_checksum(asset: Asset) -> Asset:
    """Return the asset with the checksum that an earlier download recorded, if there is one."""
    return (
        replace(asset, sha256=read_recorded_sha256(asset) or RECORDED)
        if asset.is_unpinned
        else asset
    )


def read_recorded_sha256(asset: Asset) -> str:
    """Return the recorded SHA-256 of an asset's source file, or "" if the asset is not unpacked."""
    record = _read_record(Path(asset.path))
    is_same_asset = record.get("address") == asset.address and record.get("members") == list(
        asset.members
    )
    return str(record["sha256"]) if is_same_asset else ""


def is_unchanged_asset(folder: Path, source: Mapping[str, Any], subpath: str = ".") -> bool:
    """Return whether a folder contains exactly the unchanged files unpacked from `source`.

    Args:
        folder: Folder of the asset.
        source: Expected origin of the files, as in `Asset.source`.
        subpath: File or folder of the asset to which the check is limited.
    """
    records = _read_recorded_files(folder, source)
    expected_names = {name for name in records if PurePosixPath(name).is_relative_to(subpath)}
    path = folder / subpath
    present = (
        {str(file.relative_to(folder)) for file in path.rglob("*") if file.is_file()}
        if path.is_dir()
        else {subpath}
    )
    unchanged = all(is_unchanged(folder / name, records[name]) for name in expected_names)
    return bool(expected_names) and unchanged and present - {ASSET_RECORD} == expected_names


def _read_record(folder: Path) -> dict[str, Any]:
    """Return what is recorded of the asset in a folder, or {} if there is none."""
    file = folder / ASSET_RECORD
    record: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    return record


def _read_source(folder: Path) -> dict[str, Any]:
    """Return the `Asset.source` of which a folder has files, or {} if it has none of an asset."""
    record = _read_record(folder)
    return {name: record[name] for name in ("address", "sha256", "members") if name in record}


def _read_recorded_files(folder: Path, source: Mapping[str, Any]) -> Mapping[str, FileRecord]:
    """Return a folder's recorded files by name, or {} if they were not unpacked from `source`."""
    record = _read_record(folder)
    files: Mapping[str, FileRecord] = record.get("files", {})
    return files if {name: record.get(name) for name in source} == dict(source) else {}
