"""Expands a configuration's `grid` into cell settings, and `seeds` into one configuration per seed.

An axis of the grid is a group with names of its options (`strategy: [concatenation, post_fusion]`),
a setting with values (`k: [1, 5]`), or a setting within a group (`decoding: {samples: [1, 5]}`).
Groups are set before settings within them. Names of options are replaced by their settings when the
configuration is composed (`flows.settings.composition.fill_grid`).
"""

import itertools
from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from flows.settings.composition import (
    check_axis,
    copy_unresolved,
    is_component_setting,
    is_group,
    list_groups,
    list_keys,
    list_options,
    load_option,
    resolve_settings,
)
from winnow.errors import ConfigError, suggest_name

COMMAND_SETTINGS = (
    "artifact", "calibrate_judge", "dry_run", "evaluate_estimator", "evaluate_evaluator", "export",
    "export_maps", "paths", "pipeline", "power", "question", "report", "seeds", "shard", "shards",
    "watch",
)  # fmt: skip
"""Settings of a command, which are no part of a cell."""


def expand_grid(cfg: DictConfig) -> Iterator[dict[str, Any]]:
    """Yield the plain settings of every cell. Without passages, k is 0 and placement is "none"."""
    return (resolve_settings(_normalize_cell(cell)) for cell in _iter_cells(cfg))


def _iter_cells(cfg: DictConfig) -> Iterator[DictConfig]:
    """Yield a configuration per combination of the axes' values, or the original without a grid."""
    axes = collect_axes(cfg.get("grid"))
    if not axes:
        yield cfg
        return
    for values in itertools.product(*axes.values()):
        cell = copy_unresolved(cfg)
        for axis, value in sorted(zip(axes, values, strict=True), key=lambda pair: "." in pair[0]):
            if OmegaConf.select(
                cell, axis, default=OmegaConf
            ) is OmegaConf and not is_component_setting(cell, axis):
                raise ConfigError(
                    f"grid.{axis}: there is no setting {axis!r}."
                    + suggest_name(axis, _list_axes(cell))
                )
            if axis.partition(".")[0] in COMMAND_SETTINGS:
                raise ConfigError(
                    f"grid.{axis}: a command has one {axis} for all cells. Run one for each."
                )
            OmegaConf.update(cell, axis, value, merge=False)
        cell.grid = None
        yield cell


def _list_axes(cfg: DictConfig) -> list[str]:
    """Return the groups and settings over which a grid can be."""
    return [
        *list_groups(),
        *(key for key in list_keys(cfg) if key.partition(".")[0] not in ("grid", "hydra")),
    ]


def collect_axes(grid: DictConfig | None, prefix: str = "") -> dict[str, list[Any]]:
    """Return each axis's values by dotted key; a group's values are option names or their settings.

    Raises:
        ConfigError: If the grid is not a mapping, or if an axis has no list of values or no value.
    """
    if grid is not None and not isinstance(grid, DictConfig):
        raise ConfigError(
            f"grid={grid}: it must map each axis to a list of values, for example "
            "'grid={k:[1,5]}', or null."
        )
    axes: dict[str, list[Any]] = {}
    for name, values in (grid or {}).items():
        axis = prefix + str(name)
        if isinstance(values, ListConfig):
            check_axis(axis, values)
            axes[axis] = list(values)
        elif not isinstance(values, DictConfig):
            raise ConfigError(
                f"grid.{axis}={values}: an axis needs a list of values; write "
                f"'grid.{axis}=[{values}]'."
            )
        elif _are_options(axis, values):
            axes[axis] = list(values.values())
        else:
            axes |= collect_axes(values, f"{axis}.")
    return axes


def _are_options(axis: str, values: DictConfig) -> bool:
    """Return whether a node maps option names to their settings, not settings to their values."""
    has_option_names = is_group(axis) and bool(values) and set(values) <= set(list_options(axis))
    return has_option_names and all(isinstance(option, DictConfig) for option in values.values())


def _normalize_cell(cell: DictConfig) -> DictConfig:
    """Reset k, placement or training if unused, so that cells that differ only there are equal."""
    uses_passages, uses_reader = (
        cell.strategy.get(name, True) for name in ("uses_passages", "uses_reader")
    )
    if uses_passages and uses_reader:
        return cell
    normalized_cell = copy_unresolved(cell)
    if not uses_passages:
        normalized_cell.k = 0
        normalized_cell.placement = {
            "name": "none",
            "rule": {"_target_": "winnow.contexts.placement.Placement"},
        }
        normalized_cell.distractors = load_option("distractors", "retrieved")
        normalized_cell.context = load_option("context", "none")
    # by default, the reader serves the plan of a retriever and filters the questions
    filters = cell.sweep.closed_book_filter and cell.closed_book.get("reader") is None
    if not (uses_reader or cell.retriever.get("engines") or filters):
        normalized_cell.training = load_option("training", "none")
    return normalized_cell


_SEED_KEYS = (
    "training.seed",
    "training.settings.seed",
    "training.start.seed",
    "training.start.settings.seed",
    "joint.settings.seed",
    "generator.settings.seed",
)
"""Settings that are set to the training seed, if the configuration has them."""


def expand_seeds(cfg: DictConfig) -> Iterator[DictConfig]:
    """Yield one configuration per training seed, or the configuration itself without `seeds`."""
    seeds = cfg.get("seeds")
    if seeds is None:
        yield cfg
        return
    if (
        not isinstance(seeds, ListConfig)
        or not seeds
        or not all(type(seed) is int and seed >= 0 for seed in seeds)
    ):
        raise ConfigError(
            f"seeds={seeds}: expected a list of whole numbers of at least 0, such as "
            "seeds=[1,2,3], or null."
        )
    if len(set(seeds)) < len(seeds):
        raise ConfigError(
            f"seeds={list(seeds)} names a seed twice, which would repeat the same training. Give "
            "each seed once."
        )
    for seed in seeds:
        seed_cfg = copy_unresolved(cfg)
        seed_cfg.seeds = [seed]
        for key in _SEED_KEYS:
            group, _, rest = key.partition(".")
            for axis in (group, *_list_grid_options(seed_cfg, group)):
                if OmegaConf.select(seed_cfg, f"{axis}.{rest}") is not None:
                    OmegaConf.update(seed_cfg, f"{axis}.{rest}", seed)
        yield seed_cfg


def _list_grid_options(cfg: DictConfig, group: str) -> list[str]:
    """Return the dotted keys of a group's options in the grid."""
    options = (cfg.get("grid") or {}).get(group)
    return (
        [f"grid.{group}.{name}" for name in map(str, options)]
        if isinstance(options, DictConfig)
        else []
    )
