"""Names on the Hugging Face hub and files on the web: `acquire` records their commits and checksums in hub.lock.json.

Every other stage uses these. A name without a commit identifies nothing: its owner may push other weights at any time; nor
does the address of a file whose owner publishes no checksum.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from flows._conf import copy_unresolved
from flows._identity import Pinned, asset_nodes, component_class
from winnow import identity
from winnow.artifacts.files import atomic_write
from winnow.assets import RECORDED
from winnow.errors import AssetError
from winnow.identity import HubName

LOCK = Path("hub.lock.json")
"""Commits by the names that settings use, and SHA-256 checksums by address."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A setting that names a repository on the hub."""

    node: DictConfig
    key: str
    name: HubName
    kind: str
    """"model" or "dataset"."""


def use_recorded_commits(cfg: DictConfig) -> DictConfig:
    """Return the settings with the recorded commits of the hub's names; names without one stay, and are refused in keys."""
    commits = _read()
    if not commits:
        return cfg
    pinned = copy_unresolved(cfg)
    for asset in asset_nodes(pinned):
        if asset.get("sha256") == RECORDED:
            asset.sha256 = commits.get(str(asset.address), RECORDED)
    for reference in list(references(pinned)):
        if commit := commits.get(str(reference.name)):
            reference.node[reference.key] = str(HubName(reference.name.name, commit))
    return pinned


def record_checksum(address: str, sha256: str) -> None:
    """Record the SHA-256 of the first download from an address."""
    _record({address: sha256})


def record_commits(cfg: DictConfig) -> dict[str, str]:
    """Look up and record the commits of the hub's names in the settings; return those that were not recorded before.

    Raises:
        AssetError: if the hub cannot be reached or does not have the repository.

    """
    commits = _read()
    names = {str(reference.name): reference for reference in references(cfg) if not reference.name.is_pinned}
    added = {text: _latest_commit(reference) for text, reference in names.items() if text not in commits}
    if added:
        _record(added)
    return added


def _record(entries: dict[str, str]) -> None:
    with atomic_write(LOCK, required_bytes=2**20) as partial:
        partial.write_text(json.dumps(_read() | entries, indent=1, sort_keys=True) + "\n")


def _read() -> dict[str, str]:
    commits: dict[str, str] = json.loads(LOCK.read_text()) if LOCK.is_file() else {}
    return commits


def references(cfg: DictConfig) -> Iterator[Reference]:
    """Yield the settings that name repositories on the hub."""
    pinned = Pinned.of(cfg)
    for node in _nodes(cfg):
        for key, kind in _naming_settings(node):
            path = node.get(key)
            if not isinstance(path, str) or pinned.covers(path):
                continue
            name = identity.model_name(path) if kind == "model" else identity.dataset_name(path)
            if name is not None:
                yield Reference(node, key, name, kind)


def _nodes(node: Any) -> Iterator[DictConfig]:
    if isinstance(node, DictConfig):
        yield node
        for key in node:
            yield from _nodes(node._get_node(key))


def _naming_settings(node: DictConfig) -> Iterator[tuple[str, str]]:
    """Yield the settings of a node that name models or data sets, each with its kind."""
    if "_target_" in node:
        component = component_class(str(node._target_))
        yield from ((key, "model") for key in identity.model_paths(component))
        yield from ((key, "dataset") for key in identity.dataset_names(component))
    elif "base" in node and "engine" in node and not is_remote(node):
        yield "base", "model"


def is_remote(reader: DictConfig) -> bool:
    """Return whether a reader's model is behind a server, so that its base is the server's name for it."""
    return bool(getattr(component_class(str(reader.engine._target_)), "remote", False))


def _latest_commit(reference: Reference) -> str:
    from huggingface_hub import HfApi

    api, name = HfApi(), reference.name
    look_up = api.model_info if reference.kind == "model" else api.dataset_info
    try:
        commit = look_up(name.name, revision=name.revision or None).sha
    except Exception as error:
        raise AssetError(
            f"The hub does not give the commit of {name}: {error}. Check the name, or write {name.name}@<commit>."
        ) from error
    if commit is None:
        raise AssetError(f"The hub gives no commit for {name}. Write {name.name}@<commit>.")
    return str(commit)
