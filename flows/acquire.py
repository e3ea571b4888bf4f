"""Download the data and models that the settings name into assets/, check their SHA-256, and record commits in hub.lock.json.

A dry run lists all that the cells of the settings read: files by address with their sizes, models and data sets of the hub,
which are fetched when they are first used, and files that have no address and must be yours.

python -m flows.acquire
python -m flows.acquire reader=smollm2 encoder=minilm
python -m flows.acquire reader=folder reader.base=HuggingFaceTB/SmolLM2-360M-Instruct
python -m flows.acquire corpus=psgs_w100 dataset=dpr_results dry_run=true     # what is needed, and free disk space
"""

import shutil
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from flows._entry import make_main
from flows._grid import expand_grid
from flows._hub import (
    LOCK,
    PLACEHOLDER,
    find_naming_settings,
    find_references,
    look_up_files,
    record_checksum,
    record_commits,
    use_recorded_commits,
)
from flows._identity import PinnedAssets, import_component_class, iter_asset_nodes, iter_mappings
from flows._stages import Stage
from flows._summary import Summary, progress
from winnow.assets import Asset, fetch_asset, is_present, read_recorded_sha256
from winnow.identity import markers
from winnow.identity.hub import parse_model_name


def acquire(configs: Sequence[DictConfig], groups: Collection[str] = ()) -> Summary:
    """Download every asset of the cells that is missing, or only those of some groups of settings."""
    cells = list(expand_grid(configs))
    assets = {asset.path: asset for cfg in cells for asset in iter_assets(use_recorded_commits(cfg), groups)}
    if configs[0].dry_run:
        return _dry_run(list(assets.values()), cells)
    downloads = Path(configs[0].paths.downloads)
    rows = []
    for asset in assets.values():
        with progress(f"fetching {asset.address}", None) as advance:
            fresh = fetch_asset(asset, downloads, advance)
        if asset.is_unpinned:
            record_checksum(asset.address, read_recorded_sha256(asset))
        rows.append({"asset": asset.address, "folder": asset.path, "": "fetched" if fresh else "present already"})
    for cfg in cells:
        rows += [{"asset": name, "folder": str(LOCK), "": f"commit {commit}"} for name, commit in record_commits(cfg).items()]
    return Summary("Assets", rows, artifacts=[Path(asset.path) for asset in assets.values()])


def _dry_run(assets: Sequence[Asset], cells: Sequence[DictConfig]) -> Summary:
    """Summarise what the cells read: which assets would be downloaded, what the hub has, and what has no address."""
    missing = [asset for asset in assets if not is_present(asset)]
    rows = [
        {
            "asset": asset.address,
            "folder": asset.path,
            "disk, at most": _format_gigabytes(asset.size),
            "checksum": "of the first download" if asset.is_unpinned else "known",
            "": "missing" if asset in missing else "present already",
        }
        for asset in assets
    ]
    others: dict[str, tuple[dict[str, str], int]] = {}
    for cfg in map(use_recorded_commits, cells):
        others |= {row["asset"]: (row, size) for row, size in _iter_hub_rows(cfg)}
        for row in _iter_file_rows(cfg):
            others.setdefault(row["folder"], (row, 0))  # the first setting that names it
    rows += [row for row, _ in others.values()]
    num_bytes = sum(asset.size for asset in missing) + sum(size for _, size in others.values())
    free = shutil.disk_usage(".").free
    warning = "" if num_bytes <= free else " There is not enough disk space."
    return Summary(
        "Dry run: nothing was fetched",
        rows,
        f"{_format_gigabytes(num_bytes)} needed for what has an address, {_format_gigabytes(free)} free.{warning}",
    )


def _iter_hub_rows(cfg: DictConfig) -> Iterator[tuple[dict[str, str], int]]:
    """Yield a row for each model and data set of the hub, and the bytes of the files that are loaded if the hub gives them."""
    for reference in find_references(cfg):
        if reference.name.name == PLACEHOLDER:
            continue
        checksum = "commit known" if reference.name.is_pinned else "of the first look-up"
        files = look_up_files(reference.name, reference.kind) or {}
        loaded = {name: size for name, size in files.items() if reference.kind != "model" or name.endswith(".safetensors")}
        status = "fetched when it is first used"
        if files and not loaded:
            status = "no safetensors: convert its weights (docs/data.md), and name the folder"
        size = _format_gigabytes(sum(loaded.values())) if loaded else "-" if files else "see the hub"
        where = {"asset": f"hub: {reference.name}", "folder": "the hub's cache", "disk, at most": size}
        yield {**where, "checksum": checksum, "": status}, sum(loaded.values())


def _iter_file_rows(cfg: DictConfig) -> Iterator[dict[str, str]]:
    """Yield a row for each file, model and data set that is read and not there, unless it belongs to an asset or the hub."""
    pinned = PinnedAssets.from_config(cfg)
    for name, node in iter_mappings(cfg):
        settings = [(key, "its content") for key in _list_input_files(node)]
        settings += [(key, "its weights") for key, kind in find_naming_settings(node) if kind == "model"]
        for key, checksum in settings:
            path = node.get(key)
            if isinstance(path, str) and path and not pinned.covers(path) and not Path(path).exists():
                if checksum == "its weights" and parse_model_name(path) is not None:
                    continue  # a row of the hub
                where = {"asset": "no address", "folder": path, "disk, at most": "-", "checksum": checksum}
                yield {**where, "": f"missing: yours by {name}.{key}=..."}


def _list_input_files(node: DictConfig) -> list[str]:
    """Return the settings of a component that name files."""
    return list(markers.get_input_file_settings(import_component_class(str(node._target_)))) if "_target_" in node else []


def _format_gigabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB"


def iter_assets(cfg: DictConfig, groups: Collection[str] = ()) -> Iterator[Asset]:
    """Yield the assets of all groups or of some; an asset whose files are all replaced by other paths is not needed."""
    filtering = [("reader", cfg.closed_book.get("reader"))] if cfg.sweep.closed_book_filter else []
    for name, node in [*cfg.items(), *filtering]:
        if isinstance(node, DictConfig) and (not groups or name in groups):
            paths = list(_iter_strings(_select_users(cfg, str(name), node)))
            own = {name: node[name] for name in ("asset", "sources") if name in node}  # not those of a teacher
            for settings in iter_asset_nodes(OmegaConf.create(own)):
                plain: Any = OmegaConf.to_container(settings, resolve=True)
                asset = Asset(**plain)
                if any(Path(text).is_relative_to(asset.path) for text in paths):
                    yield asset


def _select_users(cfg: DictConfig, name: str, node: DictConfig) -> Any:
    """Return the settings that may read the files of a group's asset: those of the group, or of the others for an encoder."""
    if name != "encoder":
        return OmegaConf.to_container(node, resolve=True)
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    return {other: settings for other, settings in plain.items() if other != name}  # an encoder serves other components


def _iter_strings(node: Any) -> Iterator[str]:
    """Yield every string in nested lists and mappings, but for those of assets."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for inner in (value for key, value in node.items() if key != "asset") if isinstance(node, dict) else node:
            yield from _iter_strings(inner)


STAGE = Stage(
    acquire,
    settings=("corpus", "dataset", "encoder", "estimator", "reader", "rewriter", "judge", "verifier"),
    dry_run=True,
    uses_commits=False,
    retries=2,
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
