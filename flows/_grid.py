"""Expands the `grid` of a configuration into one configuration per cell, without duplicates.

An axis of the grid is a group with names of its options (`strategy: [concatenation, post_fusion]`), a setting with values
(`k: [1, 5]`), or a setting within a group (`decoding: {samples: [1, 5]}`). Groups are set before settings within them. Names
of options are replaced by their settings when the configuration is composed (`flows._conf.fill_grid`).
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict

from flows._conf import copy_unresolved, is_group, list_groups, list_keys, list_options, load_option, resolve_settings
from flows._hub import use_recorded_commits
from flows._schema import is_component_setting
from winnow.errors import ConfigError, suggest_name


def expand_grid(configs: Sequence[DictConfig]) -> Iterator[DictConfig]:
    """Yield one configuration per distinct cell of all jobs. Strategies without passages get k = 0 and placement "none".

    The models of a grid's options get their recorded commits here.
    """
    known = set[str]()
    for cfg in configs:
        for cell in _iter_cells(cfg):
            normalized = _normalize_cell(cell)
            text = json.dumps(resolve_settings(normalized), sort_keys=True, default=str)
            if text not in known:
                known.add(text)
                yield use_recorded_commits(normalized)


def _iter_cells(cfg: DictConfig) -> Iterator[DictConfig]:
    """Yield the configuration of every combination of the axes' values, or the configuration itself without a grid."""
    axes = collect_axes(cfg.get("grid"))
    if not axes:
        yield cfg
        return
    for values in itertools.product(*axes.values()):
        cell = copy_unresolved(cfg)
        for axis, value in sorted(zip(axes, values, strict=True), key=lambda pair: "." in pair[0]):
            if OmegaConf.select(cell, axis, default=OmegaConf) is OmegaConf and not is_component_setting(cell, axis):
                raise ConfigError(f"grid.{axis}: there is no setting {axis!r}." + suggest_name(axis, _list_axes(cell)))
            OmegaConf.update(cell, axis, value, merge=False)
        cell.grid = None
        yield cell


def _list_axes(cfg: DictConfig) -> list[str]:
    """Return the groups and settings over which a grid can be."""
    return [*list_groups(), *(key for key in list_keys(cfg) if key.partition(".")[0] not in ("grid", "hydra"))]


def collect_axes(grid: DictConfig | None, prefix: str = "") -> dict[str, list[Any]]:
    """Return the values of each axis by its dotted key. The values of a group are option names or the options' settings.

    Raises:
        ConfigError: If the grid is not a mapping, or if an axis has no list of values.

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
            axes |= collect_axes(values, f"{axis}.")
    return axes


def _are_options(axis: str, values: DictConfig) -> bool:
    """Return whether a node maps option names to their settings, rather than being settings within the group."""
    named = is_group(axis) and bool(values) and set(values) <= set(list_options(axis))
    return named and all(isinstance(option, DictConfig) for option in values.values())


def _normalize_cell(cell: DictConfig) -> DictConfig:
    """Reset what a strategy does not use (k and placement, or training), so that cells that differ only in it are equal."""
    with open_dict(cell):
        if not cell.strategy.get("uses_passages", True):
            cell.k = 0
            cell.placement = {"name": "none", "rule": {"_target_": "winnow.contexts.placement.Placement"}}
            cell.distractors = load_option("distractors", "retrieved")
        if not cell.strategy.get("uses_reader", True):
            cell.training = load_option("training", "none")
    return cell
