"""Expands a grid of names and values into one config per cell; equal cells are kept once.

An axis is a group with names of its choices (`strategy: [concatenation, post_fusion]`), a setting with values
(`k: [1, 5]`), or a setting within a group (`decoding: {samples: [1, 5]}`), which is set after the groups are.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict

from flows._conf import compose, copy_unresolved, flat_keys, is_group, options
from winnow.errors import ConfigError, nearest


def resolve_option_names(cfg: DictConfig) -> DictConfig:
    """Return the config with the option names in `grid` replaced by the options, as in params.yaml."""
    if not axes_of(cfg.get("grid")):
        return cfg
    resolved = copy_unresolved(cfg)
    for axis, values in cfg.grid.items():
        if is_group(str(axis)) and not isinstance(values, DictConfig):
            resolved.grid[axis] = {name: _option(str(axis), str(name)) for name in values}
    return resolved


def expand(configs: Sequence[DictConfig]) -> list[DictConfig]:
    """Return the distinct cells of all jobs, one config each; strategies without passages get k = 0 and placement "none"."""
    cells: dict[str, DictConfig] = {}
    for cfg in configs:
        for cell in _expand(resolve_option_names(cfg)):
            canonical = _canonical(cell)
            cells.setdefault(OmegaConf.to_yaml(canonical, resolve=True, sort_keys=True), canonical)
    return list(cells.values())


def _expand(cfg: DictConfig) -> Iterator[DictConfig]:
    axes = axes_of(cfg.get("grid"))
    if not axes:
        yield cfg
        return
    for values in itertools.product(*axes.values()):
        cell = copy_unresolved(cfg)
        for axis, value in sorted(zip(axes, values, strict=True), key=lambda pair: "." in pair[0]):
            if OmegaConf.select(cell, axis, default=OmegaConf) is OmegaConf:
                raise ConfigError(f"grid.{axis}: there is no such setting." + nearest(axis, flat_keys(cell)))
            OmegaConf.update(cell, axis, value, merge=False)
        cell.grid = None
        yield cell


def axes_of(grid: DictConfig | None, prefix: str = "") -> dict[str, list[Any]]:
    """Map each axis (a dotted key) to its values, which may be option configs instead of option names.

    Raises:
        ConfigError: if an axis is not a list.

    """
    if grid is not None and not isinstance(grid, DictConfig):
        raise ConfigError(f"grid={grid}: it must map each axis to a list of values, for example 'grid={{k:[1,5]}}', or null.")
    axes: dict[str, list[Any]] = {}
    for name, values in (grid or {}).items():
        axis = prefix + str(name)
        if isinstance(values, ListConfig):
            axes[axis] = list(values)
        elif not isinstance(values, DictConfig):
            raise ConfigError(f"grid.{axis}={values}: an axis needs a list of values; write 'grid.{axis}=[{values}]'.")
        elif _are_options(axis, values):
            axes[axis] = list(values.values())
        else:
            axes |= axes_of(values, f"{axis}.")
    return axes


def _are_options(axis: str, values: DictConfig) -> bool:
    """Return whether a node maps names to resolved options rather than being settings within a group."""
    named = is_group(axis) and bool(values) and set(values) <= set(options(axis))
    return named and all(isinstance(option, DictConfig) for option in values.values())


def _option(group: str, name: str) -> Any:
    if name not in options(group):
        raise ConfigError(f"grid.{group}: there is no conf/{group}/{name}.yaml." + nearest(name, options(group)))
    return OmegaConf.to_container(compose([f"{group}={name}"])[group], resolve=False)


def _canonical(cell: DictConfig) -> DictConfig:
    if cell.strategy.get("uses_passages", True):
        return cell
    with open_dict(cell):
        cell.k = 0
        cell.placement = {"name": "none", "rule": {"_target_": "winnow.contexts.placement.Placement"}}
    return cell
