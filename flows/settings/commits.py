"""Commits of names on the Hugging Face hub and checksums of web files, recorded in hub.lock.json.

`flows.acquire` records them and every other stage uses them. A name without a commit does not
identify its content, because its owner can push other weights at any time. The same holds for a
file whose owner publishes no checksum.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flows.settings.components import Component, import_component_class, iter_mappings
from flows.settings.identity import PinnedAssets, iter_asset_nodes
from flows.settings.sections import Reader
from winnow.artifacts.files import atomic_write
from winnow.downloads import RECORDED
from winnow.errors import AssetError, ConfigError
from winnow.identity import hub, markers
from winnow.identity.hub import HubName

PLACEHOLDER = "owner/name"
"""Name in conf/ that stands for one of the user's. No hub is asked for it."""
_TIMEOUT = 5.0
"""Seconds that a dry run waits for the hub."""
LOCK = Path("hub.lock.json")
"""JSON file that maps names on the hub to commits, and addresses of files to SHA-256 checksums."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A setting that names a repository on the hub.

    Attributes:
        node: Mapping that contains the setting.
        key: Key of the setting in the mapping.
        name: Name of the repository.
        kind: "model" or "dataset".
    """

    node: dict[str, Any]
    key: str
    name: HubName
    kind: str


def use_recorded_commits(plain: dict[str, Any]) -> dict[str, Any]:
    """Return plain settings with the recorded commits and checksums of their names and addresses.

    Names without a recorded commit are not changed; computing the key of an artifact that uses one
    raises a ConfigError.
    """
    lock_entries = _read_lock()
    if not lock_entries:
        return plain
    pinned_settings = copy.deepcopy(plain)
    for asset in iter_asset_nodes(pinned_settings):
        if asset.get("sha256") == RECORDED:
            asset["sha256"] = lock_entries.get(str(asset["address"]), RECORDED)
    for reference in list(find_references(pinned_settings)):
        if commit := lock_entries.get(str(reference.name)):
            reference.node[reference.key] = str(HubName(reference.name.name, commit))
    return pinned_settings


def record_checksum(address: str, sha256: str) -> None:
    """Record the SHA-256 of the first file that was downloaded from an address."""
    _record({address: sha256})


def record_commits(plain: Mapping[str, Any]) -> dict[str, str]:
    """Look up and record the current commits of the names in plain settings that have none.

    Returns:
        The commits that were not recorded before, by name.

    Raises:
        AssetError: If the hub cannot be reached or does not have the repository.
    """
    lock_entries = _read_lock()
    names = {
        str(reference.name): reference
        for reference in find_references(plain)
        if not reference.name.is_pinned and reference.name.name != PLACEHOLDER
    }
    new_commits = {
        text: _look_up_commit(reference)
        for text, reference in names.items()
        if text not in lock_entries
    }
    if new_commits:
        _record(new_commits)
    return new_commits


def _record(entries: dict[str, str]) -> None:
    with atomic_write(LOCK, required_bytes=2**20) as partial:
        partial.write_text(json.dumps(_read_lock() | entries, indent=1, sort_keys=True) + "\n")


def _read_lock() -> dict[str, str]:
    try:
        lock_entries: dict[str, str] = json.loads(LOCK.read_text()) if LOCK.is_file() else {}
    except ValueError as error:
        raise ConfigError(
            f"{LOCK} is not valid JSON ({error}). Resolve the conflict of versions in it, or "
            "restore it from version control."
        ) from error
    return lock_entries


def find_references(plain: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the settings that name hub repositories, except paths inside downloaded assets."""
    pinned_assets = PinnedAssets.from_settings(plain)
    for _, node in iter_mappings(plain):
        for key, kind in find_naming_settings(node):
            path = node.get(key)
            if not isinstance(path, str) or pinned_assets.covers(path):
                continue
            name = hub.parse_model_name(path) if kind == "model" else hub.parse_dataset_name(path)
            if name is not None:
                yield Reference(node, key, name, kind)


def find_naming_settings(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the key and repository kind of each setting that names a model or a data set."""
    if "_target_" in node:
        component = import_component_class(str(node["_target_"]))
        yield from ((key, "model") for key in markers.get_model_path_settings(component))
        yield from ((key, "dataset") for key in markers.get_dataset_name_settings(component))
    elif "base" in node and "engine" in node and not _is_served(Component(node["engine"])):
        yield "base", "model"


def is_remote(reader: Reader) -> bool:
    """Return whether `base` names a model on a server, not one that the run loads or serves."""
    return _is_served(reader.engine)


def _is_served(engine: Component[Any]) -> bool:
    return _waits_for_server(engine.component_class) and not engine.get("start")


def _waits_for_server(engine: type) -> bool:
    """Return whether a class is a `winnow.protocols.RemoteEngine`; estimators are not engines."""
    return hasattr(engine, "submit") and hasattr(engine, "stop")


@cache
def look_up_files(name: HubName, kind: str) -> dict[str, int] | None:
    """Return a repository's files with sizes in bytes, or None if the hub does not give them."""
    try:
        info = _look_up(name, kind, files_metadata=True, timeout=_TIMEOUT)
    except Exception:
        return None  # a dry run works without the hub, which a download then misses with an error
    return {file.rfilename: file.size or 0 for file in info.siblings or ()}


def _look_up(name: HubName, kind: str, **options: Any) -> Any:
    """Ask the hub for what it says of a model or a data set."""
    from huggingface_hub import HfApi

    api = HfApi()
    look_up = api.model_info if kind == "model" else api.dataset_info
    return look_up(name.name, revision=name.revision or None, **options)


def _look_up_commit(reference: Reference) -> str:
    """Ask the hub for the current commit of a repository."""
    name = reference.name
    try:
        commit = _look_up(name, reference.kind).sha
    except Exception as error:
        raise AssetError(
            f"The hub does not give the commit of {name}: {error}. Check the name, or set it to "
            f"{name.name}@<commit>."
        ) from error
    if commit is None:
        raise AssetError(
            f"The hub returned no commit for {name}. Set the name to {name.name}@<commit>."
        )
    return str(commit)
