"""Checks the overrides of a command line or of overrides.yaml: every key must exist in conf/ and take effect."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from flows._conf import compose, flat_keys, groups, is_group, options
from flows._grid import axes_of
from flows._renames import current_overrides
from winnow.errors import ConfigError, nearest

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override


def check_overrides(overrides: Sequence[str], *, grid: bool = True) -> None:
    """Refuse an override whose key or option does not exist, with the nearest valid name.

    Args:
        overrides: Hydra's.
        grid: also refuse settings of the grid's axes, which would reach none of its cells.

    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import OverrideParseException

    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except OverrideParseException as error:
        raise ConfigError(f"{error.override!r} is not an override; write key=value, for example k=5.") from error
    chosen = _chosen_options(parsed)
    _check_keys(parsed)
    if grid:
        keys = list(_set_keys(parsed))
        for composed_grid in _grids(chosen, parsed):
            check_grid(keys, composed_grid)


def check_grid(keys: Iterable[str], grid: DictConfig | None) -> None:
    """Refuse settings that are axes of a grid, or parts of an axis's options: they would reach none of its cells."""
    if grid is None:
        return
    axes = axes_of(grid)
    for key in keys:
        axis = next((axis for axis in axes if f"{key}.".startswith(f"{axis}.")), None)
        if axis is None:
            continue
        if key != axis and is_group(axis):
            raise ConfigError(
                f"{key}: the grid takes each {axis} from conf/{axis} as it is, so this would reach none of its cells. "
                f"Copy the YAML under a name of its own, change it there, and set 'grid.{axis}=[name]'."
            )
        values = ", ".join(map(str, OmegaConf.select(grid, axis)))
        raise ConfigError(
            f"{key}: the grid is over {axis} ({values}), so this would reach none of its cells. Leave it out, or write "
            f"'grid.{axis}=[...]' with values of your own, or add grid=null, which leaves one cell, that of the other words."
        )


def from_params(path: Path, overrides: Sequence[str], *, grid: bool = True) -> DictConfig:
    """Load a composed file, as DVC's stages do, and apply `key=value` overrides to keys that it has."""
    if not path.is_file():
        raise ConfigError(f"There is no {path}. Run `python -m flows.compose` to make it from conf/.")
    cfg = OmegaConf.load(path)
    assert isinstance(cfg, DictConfig)
    changed: list[str] = []
    for override in current_overrides(overrides):
        key, _, text = override.partition("=")
        if is_group(key):
            raise ConfigError(
                f"{override}: {path} is composed already, and options come before that. Choose it in overrides.yaml and run "
                "`python -m flows.compose`, or leave --params out."
            )
        if OmegaConf.select(cfg, key, default=OmegaConf) is OmegaConf:
            raise ConfigError(_unknown_key(key, flat_keys(cfg)))
        value = OmegaConf.create(f"v: {text}").v
        OmegaConf.update(cfg, key, value, merge=not isinstance(value, ListConfig))
        changed += _leaves(key, value)
    if grid:
        check_grid([key for key in changed if key.partition(".")[0] != "grid"], cfg.get("grid"))
    return cfg


def _check_keys(parsed: Sequence["Override"]) -> None:
    """Raise for a key that the composed settings do not have."""
    choices = [choice for override in parsed if (choice := _first_choice(override))]
    known: set[str] = set()
    for override in parsed:
        key = override.key_or_group
        if override.is_add() or key.startswith("hydra") or is_group(key):
            continue
        known = known or set(flat_keys(compose(choices)))
        if key not in known:
            raise ConfigError(_unknown_key(key, known | set(groups())))


def _first_choice(override: "Override") -> str:
    """Return the override that chooses an option, the first of a sweep; "" for other overrides."""
    if not is_group(override.key_or_group) or override.is_delete() or not _names(override):
        return ""
    return _single_values(override)[0]


def _chosen_options(parsed: Iterable["Override"]) -> dict[str, list[str]]:
    """Return the options chosen of each group, several in a sweep; raise for one that conf/ does not have."""
    chosen: dict[str, list[str]] = {}
    for override in parsed:
        group = override.key_or_group
        if not is_group(group) or override.is_delete():
            continue
        known, names = options(group), [str(name) for name in _names(override)]
        for name in names:
            if name not in known:
                raise ConfigError(f"{group}={name}: there is no conf/{group}/{name}.yaml." + nearest(name, known))
        if override.package is None:
            chosen[group] = names
    return chosen


def _names(override: "Override") -> list[Any]:
    """Return the option names of an override, those of a list one by one."""
    names: list[Any] = []
    for value in _values(override):
        names += value if isinstance(value, list) else [value]
    return [name for name in names if name is not None]


def _set_keys(parsed: Iterable["Override"]) -> Iterator[str]:
    """Yield the keys that overrides set, those of a mapping one by one, and the groups that they choose; none of the grid."""
    for override in parsed:
        key = override.key_or_group
        if override.package is None and not override.is_delete() and key.partition(".")[0] != "grid":
            yield from dict.fromkeys(leaf for value in _values(override) for leaf in _leaves(key, value))


def _leaves(key: str, value: Any) -> list[str]:
    if not isinstance(value, Mapping | DictConfig) or not value:
        return [key]
    return [leaf for name, inner in value.items() for leaf in _leaves(f"{key}.{getattr(name, 'text', name)}", inner)]


def _grids(chosen: Mapping[str, Sequence[str]], parsed: Iterable["Override"]) -> Iterator[DictConfig | None]:
    """Yield the grid of every experiment, and of every value that the overrides give it."""
    choices = [_single_values(override) for override in parsed if override.key_or_group.partition(".")[0] == "grid"]
    experiments = [f"experiment={name}" for name in chosen.get("experiment", ())]
    if experiments:
        choices.insert(0, experiments)
    if choices:
        yield from (compose(picked).get("grid") for picked in itertools.product(*choices))


def _single_values(override: "Override") -> list[str]:
    """Return an override as overrides of one value each: several for a sweep."""
    if not override.is_sweep_override():
        return [str(override.input_line)]
    return [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]


def _values(override: "Override") -> Sequence[Any]:
    value: Any = override.value()
    return list(value.list) if hasattr(value, "list") else [value]


def _unknown_key(key: str, known: Iterable[str]) -> str:
    if key.startswith("grid."):
        axis = key.removeprefix("grid.")
        return f"The grid has no axis {axis!r}." + nearest(key, known) + f" A new one is '+{key}=[...]'."
    return f"There is no setting {key!r}." + nearest(key, known) + " `--help` lists the groups; conf/ has every key."
