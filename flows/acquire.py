"""Download the data and models that the settings name into assets/, check their SHA-256, and record
commits in hub.lock.json.

A dry run lists all that the cells of the settings read: files by address with their sizes, models
and data sets of the hub, which are fetched when they are first used, and files that have no address
and must be yours.

python -m flows.acquire
python -m flows.acquire reader=smollm2 encoder=minilm
python -m flows.acquire reader=folder reader.base=HuggingFaceTB/SmolLM2-360M-Instruct
# What is needed, and free disk space
python -m flows.acquire corpus=psgs_w100 dataset=dpr_results dry_run=true
"""

import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.settings.commits import (
    LOCK,
    PLACEHOLDER,
    find_naming_settings,
    find_references,
    look_up_files,
    record_checksum,
    record_commits,
)
from flows.settings.components import import_component_class, iter_mappings
from flows.settings.door import list_cells
from flows.settings.identity import PinnedAssets, iter_asset_nodes
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.tools.summary import Summary, progress
from winnow.assets import fetch_asset, is_present, read_recorded_sha256
from winnow.downloads import Asset
from winnow.identity import markers
from winnow.identity.hub import parse_model_name
from winnow.protocols import MODEL_ROLES

_PICKLED = "no safetensors: convert its weights (docs/data.md), and name the folder"


def acquire(jobs: Sequence[Settings], groups: Collection[str] = ()) -> Summary:
    """Download every asset of the cells that is missing, or only those of some groups of settings.

    Files that are not there and have no address are named before the first download, which may take
    hours.
    """
    cells = list_cells(jobs)
    assets = _list_assets(cells, groups)
    downloads = Path(jobs[0].paths.downloads)
    yours = [] if groups else _list_missing_files(cells)
    for row in yours:
        print(
            f"{row['folder']} has no address ({row['']}); what has one is fetched.",
            file=sys.stderr,
        )
    rows = []
    for asset in assets:
        with progress(f"fetching {asset.address}", None) as advance:
            fresh = fetch_asset(asset, downloads, advance)
        if asset.is_unpinned:
            record_checksum(asset.address, read_recorded_sha256(asset))
        rows.append(
            {
                "asset": asset.address,
                "folder": asset.path,
                "": "fetched" if fresh else "present already",
            }
        )
    for settings in cells:
        rows += [
            {"asset": name, "folder": str(LOCK), "": f"commit {commit}"}
            for name, commit in record_commits(settings.plain).items()
        ]
    yours += [row for row, _ in _iter_hub_rows(cells) if row[""] == _PICKLED]
    rows += [{name: row[name] for name in ("asset", "folder", "")} for row in yours]
    return Summary("Assets", rows, artifacts=[Path(asset.path) for asset in assets])


def plan_downloads(jobs: Sequence[Settings], groups: Collection[str] = ()) -> Summary:
    """Summarize what the cells read, or only some groups of settings: which assets would be
    downloaded, what the hub has, and what has no address.
    """
    cells = list_cells(jobs)
    assets = _list_assets(cells, groups)
    missing_assets = [asset for asset in assets if not is_present(asset)]
    rows = [
        {
            "asset": asset.address,
            "folder": asset.path,
            "disk, at most": _format_gigabytes(asset.size),
            "checksum": "of the first download" if asset.is_unpinned else "known",
            "": "missing" if asset in missing_assets else "present already",
        }
        for asset in assets
    ]
    others = list(_iter_hub_rows(cells))
    rows += [*(row for row, _ in others), *_list_missing_files(cells)]
    num_bytes = sum(asset.size for asset in missing_assets) + sum(size for _, size in others)
    free = shutil.disk_usage(".").free
    warning = "" if num_bytes <= free else " There is not enough disk space."
    return Summary(
        "Dry run: nothing was fetched",
        rows,
        f"{_format_gigabytes(num_bytes)} needed for what has an address, {_format_gigabytes(free)} "
        f"free.{warning}",
    )


def _iter_hub_rows(cells: Sequence[Settings]) -> Iterator[tuple[dict[str, str], int]]:
    """Yield a row and the bytes to load, if known, for each model and data set on the hub."""
    references = {
        str(reference.name): reference
        for settings in cells
        for reference in find_references(settings.plain)
    }
    for reference in references.values():
        if reference.name.name == PLACEHOLDER:
            continue
        checksum = "commit known" if reference.name.is_pinned else "of the first look-up"
        files = look_up_files(reference.name, reference.kind) or {}
        file_sizes = {
            name: size
            for name, size in files.items()
            if reference.kind != "model" or name.endswith(".safetensors")
        }
        status = "fetched when it is first used"
        if files and not file_sizes:
            status = _PICKLED
        size = (
            _format_gigabytes(sum(file_sizes.values()))
            if file_sizes
            else "-"
            if files
            else "see the hub"
        )
        where = {
            "asset": f"hub: {reference.name}",
            "folder": "the hub's cache",
            "disk, at most": size,
        }
        yield {**where, "checksum": checksum, "": status}, sum(file_sizes.values())


def _list_missing_files(cells: Sequence[Settings]) -> list[dict[str, str]]:
    """Return a row for each file of `_iter_file_rows`, by the first setting that names it."""
    rows: dict[str, dict[str, str]] = {}
    for settings in cells:
        for row in _iter_file_rows(settings):
            rows.setdefault(row["folder"], row)
    return list(rows.values())


def _iter_file_rows(settings: Settings) -> Iterator[dict[str, str]]:
    """Yield a row for each missing file, model and data set outside the assets and the hub."""
    pinned_assets = PinnedAssets.from_settings(settings.plain)
    for name, node in iter_mappings(settings.plain):
        naming = [(key, "its content") for key in _list_input_files(node)]
        naming += [
            (key, "its weights") for key, kind in find_naming_settings(node) if kind == "model"
        ]
        for key, checksum in naming:
            path = node.get(key)
            if (
                isinstance(path, str)
                and path
                and not pinned_assets.covers(path)
                and not Path(path).exists()
            ):
                if checksum == "its weights" and parse_model_name(path) is not None:
                    continue  # a row of the hub
                where = {
                    "asset": "no address",
                    "folder": path,
                    "disk, at most": "-",
                    "checksum": checksum,
                }
                yield {**where, "": f"missing: yours by {name}.{key}=..."}


def _list_input_files(node: Mapping[str, Any]) -> list[str]:
    """Return the settings of a component that name files."""
    return (
        list(markers.get_input_file_settings(import_component_class(str(node["_target_"]))))
        if "_target_" in node
        else []
    )


def _format_gigabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB"


def _list_assets(cells: Sequence[Settings], groups: Collection[str]) -> list[Asset]:
    """Return the assets of cells, one for each path."""
    assets = [asset for settings in cells for asset in iter_assets(settings, groups)]
    return list({asset.path: asset for asset in assets}.values())


def iter_assets(settings: Settings, groups: Collection[str] = ()) -> Iterator[Asset]:
    """Yield the assets of `groups` or of all, except an asset whose paths are all overridden."""
    plain = settings.plain
    filtering = (
        [("reader", plain["closed_book"].get("reader"))]
        if settings.sweep.closed_book_filter
        else []
    )
    others = {name: plain[name] for name in groups or plain if name in plain}
    for name, node in [*plain.items(), *filtering]:
        if isinstance(node, dict) and (not groups or name in groups):
            paths = list(_iter_strings(_select_users(others, name, node)))
            own = {
                name: node[name] for name in ("asset", "sources") if name in node
            }  # not those of a teacher
            for asset in (Asset(**one) for one in iter_asset_nodes(own)):
                if any(Path(text).is_relative_to(asset.path) for text in paths):
                    yield asset


def _select_users(groups: Mapping[str, Any], name: str, node: Any) -> Any:
    """Return the settings that may read a group's asset: its own, or the others for an encoder."""
    if name != "encoder":
        return node
    return {other: inner for other, inner in groups.items() if other != name}


def _iter_strings(node: Any) -> Iterator[str]:
    """Yield every string in nested lists and mappings, but for those of assets."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for inner in (
            (value for key, value in node.items() if key != "asset")
            if isinstance(node, dict)
            else node
        ):
            yield from _iter_strings(inner)


_SETTINGS = (
    "corpus", "dataset", "encoder", "estimator", "search", "nli", "closed_book", "training",
    "joint", "generator", *MODEL_ROLES,
)  # fmt: skip
"""Sections whose components may have an asset."""
STAGE = Stage(
    acquire,
    settings=_SETTINGS,
    dry_run=plan_downloads,
)
main = make_main(STAGE)
if __name__ == "__main__":
    main()
