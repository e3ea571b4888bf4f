"""Fetch the data and models that the settings name, checked by SHA-256, into assets/; record the commits of hub names.

python -m flows.acquire
python -m flows.acquire reader=smollm2 encoder=minilm
python -m flows.acquire reader=folder reader.base=HuggingFaceTB/SmolLM2-360M-Instruct
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from flows._entry import entry
from flows._hub import LOCK, record_commits
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
    for cfg in configs:
        rows += [{"asset": name, "folder": str(LOCK), "": f"commit {commit}"} for name, commit in record_commits(cfg).items()]
    return Summary("Assets", rows)


def assets_of(cfg: DictConfig) -> Iterator[Asset]:
    """Yield the assets that any group names."""
    for node in cfg.values():
        if isinstance(node, DictConfig) and "asset" in node:
            plain: Any = OmegaConf.to_container(node.asset, resolve=True)
            yield Asset(**plain)


main = entry(acquire, retries=2, uses_commits=False)
if __name__ == "__main__":
    main()
