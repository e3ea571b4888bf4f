"""Fetch the data and models that the settings name, checked by SHA-256, into assets/; record commits and first checksums.

python -m flows.acquire
python -m flows.acquire reader=smollm2 encoder=minilm
python -m flows.acquire reader=folder reader.base=HuggingFaceTB/SmolLM2-360M-Instruct
python -m flows.acquire corpus=psgs_w100 dataset=dpr_results dry_run=true     # addresses, sizes and free disk space only
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from flows._entry import entry
from flows._hub import LOCK, record_checksum, record_commits, use_recorded_commits
from flows._summary import Summary, progress
from winnow.assets import Asset, fetch, is_present, recorded_sha256


def acquire(configs: Sequence[DictConfig]) -> Summary:
    """Fetch every asset of the settings that is missing."""
    assets = {asset.path: asset for cfg in configs for asset in assets_of(use_recorded_commits(cfg))}
    if configs[0].dry_run:
        return _dry_run(list(assets.values()))
    downloads = Path(configs[0].paths.downloads)
    rows = []
    for asset in assets.values():
        with progress(f"fetching {asset.address}", None) as advance:
            fresh = fetch(asset, downloads, advance)
        if asset.is_unpinned:
            record_checksum(asset.address, recorded_sha256(asset))
        rows.append({"asset": asset.address, "folder": asset.path, "": "fetched" if fresh else "present already"})
    for cfg in configs:
        rows += [{"asset": name, "folder": str(LOCK), "": f"commit {commit}"} for name, commit in record_commits(cfg).items()]
    return Summary("Assets", rows)


def _dry_run(assets: Sequence[Asset]) -> Summary:
    """Return what would be fetched, and what disk space it takes."""
    missing = [asset for asset in assets if not is_present(asset)]
    rows = [
        {
            "asset": asset.address,
            "folder": asset.path,
            "disk, at most": _gigabytes(asset.size),
            "checksum": "of the first download" if asset.is_unpinned else "known",
            "": "missing" if asset in missing else "present already",
        }
        for asset in assets
    ]
    needed, free = sum(asset.size for asset in missing), shutil.disk_usage(".").free
    verdict = "" if needed <= free else " This is not enough."
    return Summary(
        "Dry run: nothing was fetched", rows, f"{_gigabytes(needed)} needed, {_gigabytes(free)} free here.{verdict}"
    )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


def assets_of(cfg: DictConfig) -> Iterator[Asset]:
    """Yield the assets that any group names and reads; a path of one's own in place of an asset's file needs no download."""
    for node in cfg.values():
        if isinstance(node, DictConfig) and "asset" in node:
            plain: Any = OmegaConf.to_container(node, resolve=True)
            asset = Asset(**plain.pop("asset"))
            if any(Path(text).is_relative_to(asset.path) for text in _texts(plain)):
                yield asset


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for inner in node.values() if isinstance(node, dict) else node:
            yield from _texts(inner)


main = entry(acquire, retries=2, dry_run=True, uses_commits=False)
if __name__ == "__main__":
    main()
