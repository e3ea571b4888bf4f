"""Expands the setting `seeds` into one configuration per training seed."""

from collections.abc import Iterator, Sequence

from omegaconf import DictConfig, ListConfig, OmegaConf

from flows._conf import copy_unresolved
from winnow.errors import ConfigError

_SEED_KEYS = (
    "training.seed",
    "training.settings.seed",
    "training.start.seed",
    "training.start.settings.seed",
    "joint.settings.seed",
    "generator.settings.seed",
)
"""Settings that are set to the training seed, if the configuration has them."""


def expand_seeds(configs: Sequence[DictConfig]) -> list[DictConfig]:
    """Return one configuration per training seed; a configuration without `seeds` is returned unchanged."""
    return [expanded for cfg in configs for expanded in _iter_seeds(cfg)]


def _iter_seeds(cfg: DictConfig) -> Iterator[DictConfig]:
    seeds = cfg.get("seeds")
    if seeds is None:
        yield cfg
        return
    if not isinstance(seeds, ListConfig) or not seeds or not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise ConfigError(f"seeds={seeds}: expected a list of whole numbers of at least 0, such as seeds=[1,2,3], or null.")
    if len(set(seeds)) < len(seeds):
        raise ConfigError(
            f"seeds={list(seeds)} names a seed twice, which would repeat the same training. Give each seed once."
        )
    for seed in seeds:
        copied = copy_unresolved(cfg)
        copied.seeds = [seed]
        for key in _SEED_KEYS:
            group, _, rest = key.partition(".")
            for axis in (group, *_list_grid_options(copied, group)):
                if OmegaConf.select(copied, f"{axis}.{rest}") is not None:
                    OmegaConf.update(copied, f"{axis}.{rest}", seed)
        yield copied


def _list_grid_options(cfg: DictConfig, group: str) -> list[str]:
    """Return the dotted keys of a group's options in the grid."""
    options = (cfg.get("grid") or {}).get(group)
    return [f"grid.{group}.{name}" for name in map(str, options)] if isinstance(options, DictConfig) else []
