"""Fetch the data and models that the settings name, checked by SHA-256, into assets/.

python -m flows.acquire
python -m flows.acquire reader=smollm2 encoder=minilm
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from flows._entry import entry
from flows._summary import Summary, progress
from winnow.assets import Asset, fetch


def acquire(configs: Sequence[DictConfig]) -> Summary:
    """Fetch every asset of the settings that is missing."""
    assets = {asset.path: asset for cfg in configs for asset in assets_of(cfg)}
    downloads = Path(configs[0].paths.downloads)
    rows = []
    for asset in assets.values():
        with progress(f"fetching {asset.address}", None) as advance:
            fresh = fetch(asset, downloads, advance)
        rows.append({"asset": asset.address, "folder": asset.path, "": "fetched" if fresh else "present already"})
    return Summary("Assets", rows)


def assets_of(cfg: DictConfig) -> Iterator[Asset]:
    """Yield the assets that any group names."""
    for node in cfg.values():
        if isinstance(node, DictConfig) and "asset" in node:
            plain: Any = OmegaConf.to_container(node.asset, resolve=True)
            yield Asset(**plain)


main = entry(acquire, retries=2)
if __name__ == "__main__":
    main()
