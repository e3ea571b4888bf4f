"""Composes the configuration in conf/, and lists its groups, their options and the keys of settings."""

import copy
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from winnow.errors import ConfigError, suggest_name

CONF = Path(__file__).resolve().parent.parent / "conf"


def compose(overrides: Sequence[str], config: str = "config") -> DictConfig:
    """Compose conf/ with Hydra overrides; works outside a Hydra run and within one.

    The options that the grid names are filled in by `fill_grid`.

    Args:
        overrides: Overrides as on the command line.
        config: File in conf/ to start from: "config" for all settings, or "<group>/<option>" for one option alone, which takes
            a fifth of the time.

    Raises:
        ConfigError: If Hydra cannot compose the configuration with these overrides, or if a setting cannot hold in any cell.

    """
    return compose_with_choices(overrides, config)[0]


def compose_with_choices(overrides: Sequence[str], config: str = "config") -> tuple[DictConfig, Mapping[str, str]]:
    """Compose conf/ as `compose` does, and return the name of each group's chosen option too."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException

    try:
        running = GlobalHydra.instance().is_initialized()
        with nullcontext() if running else initialize_config_dir(str(CONF), version_base="1.3"):
            cfg = hydra_compose(config, overrides=list(overrides), return_hydra_config=True)
    except HydraException as error:
        raise ConfigError(f"conf/ cannot be composed with {list(overrides)}: {error}") from error
    choices = read_choices(cfg.hydra)
    return fill_grid(remove_hydra(cfg), choices), choices


def remove_hydra(cfg: DictConfig) -> DictConfig:
    """Return a configuration without Hydra's own settings."""
    plain: Any = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    return plain  # type: ignore[no-any-return]  # OmegaConf returns Any


def read_choices(hydra: Any) -> dict[str, str]:
    """Return the name of each group's chosen option from Hydra's own settings."""
    return {str(group): str(option) for group, option in hydra.runtime.choices.items()}


def fill_grid(cfg: DictConfig, choices: Mapping[str, str]) -> DictConfig:
    """Replace the option names in `grid` by the settings of the options, as params.yaml stores them.

    Settings that an experiment or an override gives to the chosen option of a group hold in every cell with that option. Cells
    with another option of the group have the settings of conf/.

    Args:
        cfg: Composed configuration.
        choices: Name of the chosen option of each group.

    Raises:
        ConfigError: If there is no such option, or if settings were given to an option that is not in the grid.

    """
    if not isinstance(cfg.get("grid"), DictConfig):
        return cfg
    filled = copy_unresolved(cfg)
    for axis, names in cfg.grid.items():
        if is_group(str(axis)) and isinstance(names, ListConfig):
            filled.grid[axis] = _load_options(cfg, str(axis), [str(name) for name in names], choices.get(str(axis)))
    return filled


def _load_options(cfg: DictConfig, group: str, names: Sequence[str], chosen: str | None) -> dict[str, Any]:
    """Return the settings of a group's options by their names; those of the chosen option are as composed."""
    options = {name: load_option(group, name) for name in names}
    node = cfg.get(group)
    if not isinstance(node, DictConfig) or chosen not in list_options(group):
        return options
    composed = OmegaConf.to_container(node, resolve=False)
    if chosen in options:
        options[chosen] = composed
    elif options and composed != load_option(group, chosen):
        raise ConfigError(
            f"grid.{group}={list(options)}: settings of {group}={chosen} were changed, but no cell has this option. "
            f"Add {chosen} to the grid, or write these settings into a copy of conf/{group}/{names[0]}.yaml and name the copy "
            "there."
        )
    return options


@cache
def load_option(group: str, name: str) -> Any:
    """Compose one option of a group and return its settings as plain values, with unresolved interpolations."""
    if name not in list_options(group):
        raise ConfigError(f"grid.{group}: there is no conf/{group}/{name}.yaml." + suggest_name(name, list_options(group)))
    return OmegaConf.to_container(compose([], f"{group}/{name}")[group], resolve=False)


REQUIRED = {
    "corpus": ("name", "parser"),
    "dataset": ("name", "parser", "split"),
    "retriever": ("name", "engine"),
    "estimator": ("name", "engine"),
    "reader": ("name", "tuned", "base", "engine"),
    "strategy": ("name", "plan"),
}
"""Keys that every option of a group must have."""


def check_choices(cfg: DictConfig) -> None:
    """Check that the chosen options have the keys that their groups require.

    Raises:
        ConfigError: If a key is missing. The message names the group and the missing keys.

    """
    missing_groups = [group for group in _list_default_keys() if group not in cfg]
    if missing_groups:
        raise ConfigError(
            f"The settings lack {', '.join(missing_groups)}. Remove the override that leaves them out, choose an option of "
            "each (`--help` lists them), or write params.yaml again with `python -m flows.compose`."
        )
    for group, keys in REQUIRED.items():
        if group in cfg and (missing := [key for key in keys if key not in cfg[group]]):
            chosen = cfg[group].get("name", "unnamed")
            raise ConfigError(
                f"conf/{group}/ ({chosen}): the YAML lacks {', '.join(missing)}. Add it, as in the other files there."
            )
    for name, node in cfg.get("metric", {}).items():
        if not isinstance(node, DictConfig) or "_target_" not in node:
            raise ConfigError(
                f"conf/metric/: {name!r} is not a metric. The first line of a metric's YAML is `# @package metric.<name>`; "
                f"received {node!r}."
            )


@cache
def _list_default_keys() -> tuple[str, ...]:
    """Return the top-level keys of the default configuration, read from conf/config.yaml because composing it is slow."""
    body = OmegaConf.load(CONF / "config.yaml")
    options = {
        str(group).rpartition("@")[2]: option
        for entry in body.defaults
        if isinstance(entry, DictConfig)
        for group, option in entry.items()
    }
    groups = [group for group, option in options.items() if option is not None and group != "runner"]  # it sets only Hydra
    return (*(str(key) for key in body if key not in ("defaults", "hydra")), *groups)


def resolve_settings(cfg: DictConfig) -> Any:
    """Return all settings as plain values; raise ConfigError if one refers to another that does not exist, or has no value."""
    try:
        return OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        message = str(error.msg or error).splitlines()[0]
        raise ConfigError(f"{error.full_key or 'settings'}: {message}. Set a value, or correct the reference.") from error


def copy_unresolved(cfg: DictConfig) -> DictConfig:
    """Return a copy of a configuration that can be modified; interpolations are not resolved."""
    copied = copy.deepcopy(cfg)
    OmegaConf.set_struct(copied, None)
    OmegaConf.set_readonly(copied, None)
    return copied


def list_groups() -> list[str]:
    """Return the names of the groups, which are the folders of conf/."""
    return sorted(folder.name for folder in CONF.iterdir() if folder.is_dir())


def list_options(group: str) -> list[str]:
    """Return the names of the options of a group, which are its YAML files."""
    return sorted(str(file.relative_to(CONF / group).with_suffix("")) for file in (CONF / group).rglob("*.yaml"))


def is_group(key: str) -> bool:
    """Return whether a key names a group, which is a folder of conf/."""
    return (CONF / key).is_dir()


def list_keys(cfg: Any, prefix: str = "") -> list[str]:
    """Return every dotted key of a configuration, including the keys of mappings."""
    if isinstance(cfg, ListConfig):
        return [f"{prefix}.{n}" for n in range(len(cfg))]
    if not isinstance(cfg, DictConfig):
        return []
    keys: list[str] = []
    for name in cfg:
        key = ".".join([prefix, str(name)] if prefix else [str(name)])
        keys += [key, *list_keys(cfg._get_node(name), key)]
    return keys
