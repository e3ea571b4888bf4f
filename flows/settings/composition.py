"""Composes the configuration in conf/, and lists its groups, their options and setting keys."""

import itertools
import pickle
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from flows.settings.components import import_component_class
from winnow.errors import ConfigError, suggest_name
from winnow.identity.markers import read_annotations

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

CONF = Path(__file__).resolve().parents[2] / "conf"
Composed = DictConfig
"""Settings as Hydra composes them, with references; `flows.settings.door` makes `Settings` of them.
"""


def compose_config(overrides: Sequence[str], config: str = "config") -> DictConfig:
    """Compose conf/ with Hydra overrides; works outside a Hydra run and within one.

    The options that the grid names are filled in by `fill_grid`.

    Args:
        overrides: Overrides as on the command line.
        config: File in conf/ to start from: "config" for all settings, or "<group>/<option>" for
            one option alone, which takes a fifth of the time.

    Raises:
        ConfigError: If Hydra cannot compose the configuration with these overrides, or if a setting
            cannot hold in any cell.
    """
    return compose_with_choices(overrides, config)[0]


def compose_with_choices(
    overrides: Sequence[str], config: str = "config"
) -> tuple[DictConfig, Mapping[str, str]]:
    """Compose conf/ like `compose_config`, and also return the name of each group's chosen option.

    Hydra composes the chosen options, once in a process. Values of single settings are then set as
    Hydra sets them, in a copy.
    """
    parsed_overrides = parse_overrides(overrides)
    values = (
        []
        if any(override.is_delete() for override in parsed_overrides)
        else [one for one in parsed_overrides if _sets_value(one)]
    )
    pickled, choices = _compose_options(
        tuple(str(one.input_line) for one in parsed_overrides if one not in values), config
    )
    cfg: Any = pickle.loads(pickled)  # noqa: S301 (bytes of that function alone)
    try:
        for override in values:
            key, value = override.key_or_group, override.value()
            if (
                override.is_add()
                and not isinstance(value, dict | list)
                and OmegaConf.select(cfg, key) is not None
            ):
                raise ConfigError(
                    f"{override.input_line}: there is a setting {key} already. Remove the + to "
                    "change it."
                )
            OmegaConf.update(
                cfg, key, value, merge=True, force_add=override.is_add() or override.is_force_add()
            )
    except ConfigError:
        raise
    except (
        OmegaConfBaseException,
        ValueError,
    ) as error:  # a ValueError for a name in place of a number in a list
        raise ConfigError(f"conf/ cannot be composed with {list(overrides)}: {error}") from error
    return fill_grid(cfg, choices), choices


def parse_overrides(overrides: Sequence[str]) -> "list[Override]":
    """Parse overrides in Hydra's syntax, once per process; raise ConfigError if one is invalid."""
    return [_parse_override(override) for override in overrides]


@cache
def _parse_override(override: str) -> "Override":
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import OverrideParseException

    try:
        (parsed_override,) = OverridesParser.create().parse_overrides([override])
    except OverrideParseException as error:
        key, separator, value = str(error.override).partition("=")
        example = "'" + f'{key}="{value}"' + "'" if separator else "k=5"
        raise ConfigError(
            f"{error.override!r} is not a valid override; write key=value, and quote a value with "
            f"spaces, brackets or other signs, for example {example}."
        ) from error
    return parsed_override


def _sets_value(override: "Override") -> bool:
    """Return whether an override sets one setting to one value, not an option or several values."""
    is_setting = override.package is None and not is_group(override.key_or_group)
    return (
        is_setting
        and not override.is_sweep_override()
        and not override.key_or_group.startswith("hydra")
    )


@cache
def _compose_options(overrides: tuple[str, ...], config: str) -> tuple[bytes, Mapping[str, str]]:
    """Compose conf/ with Hydra; return the pickled configuration and each group's chosen option."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    try:
        is_running = GlobalHydra.instance().is_initialized()
        with nullcontext() if is_running else initialize_config_dir(str(CONF), version_base="1.3"):
            cfg = hydra_compose(config, overrides=list(overrides), return_hydra_config=True)
    except Exception as error:
        raise ConfigError(f"conf/ cannot be composed with {list(overrides)}: {error}") from error
    with open_dict(cfg):
        hydra = cfg.pop("hydra")
    return pickle.dumps(cfg), read_choices(hydra)


def forget_options() -> None:
    """Reread conf/ at the next composition, because a notebook's user may have changed it."""
    _compose_options.cache_clear()
    load_option.cache_clear()


def read_choices(hydra: Any) -> dict[str, str]:
    """Return the name of each group's chosen option from Hydra's own settings."""
    return {str(group): str(option) for group, option in hydra.runtime.choices.items()}


def fill_grid(cfg: DictConfig, choices: Mapping[str, str]) -> DictConfig:
    """Replace option names in `grid` by the settings of the options, as params.yaml stores them.

    Settings that an experiment or an override gives to the chosen option of a group hold in every
    cell with that option. Cells with another option of the group have the settings of conf/.

    Args:
        cfg: Composed configuration.
        choices: Name of the chosen option of each group.

    Raises:
        ConfigError: If there is no such option, or if settings were given to an option that is not
            in the grid.
    """
    if not isinstance(cfg.get("grid"), DictConfig):
        return cfg
    filled = copy_unresolved(cfg)
    for axis, names in cfg.grid.items():
        if is_group(str(axis)) and isinstance(names, ListConfig):
            check_axis(str(axis), names)
            filled.grid[axis] = _load_options(
                cfg, str(axis), [str(name) for name in names], choices.get(str(axis))
            )
    return filled


def check_axis(axis: str, values: ListConfig) -> None:
    """Raise ConfigError if an axis of a grid has no value."""
    if not values:
        raise ConfigError(
            f"grid.{axis} has no value, so that there would be no cell. Give at least one, or "
            "leave the axis out."
        )


def _load_options(
    cfg: DictConfig, group: str, names: Sequence[str], chosen: str | None
) -> dict[str, Any]:
    """Return a group's option settings by name, with the chosen option's settings as composed."""
    options = {name: load_option(group, name) for name in names}
    node = cfg.get(group)
    if not isinstance(node, DictConfig) or chosen not in list_options(group):
        return options
    composed_option = OmegaConf.to_container(node, resolve=False)
    if chosen in options:
        options[chosen] = composed_option
    elif options and composed_option != load_option(group, chosen):
        raise ConfigError(
            f"grid.{group}={list(options)}: settings of {group}={chosen} were changed, but no cell "
            f"has this option. Add {chosen} to the grid, or write these settings into a copy of "
            f"conf/{group}/{names[0]}.yaml and name the copy there."
        )
    return options


def describe_missing_option(group: str, name: str) -> str:
    """Say that a group has no such option, with the closest one, or all if none is similar."""
    group, options = group.partition("@")[0], list_options(group)
    hint = suggest_name(name, options) or f" The choices are {', '.join(sorted(options))}."
    models = (
        " The name of a model is reader.base, as in reader=openai reader.base=gpt-4o."
        if group == "reader"
        else ""
    )
    return f"there is no conf/{group}/{name}.yaml.{hint}{models}"


@cache
def load_option(group: str, name: str) -> Any:
    """Compose an option of a group and return its plain settings, with unresolved interpolations.

    Hydra need not compose a file that builds on no other one, which takes ten times as long.
    """
    if name not in list_options(group):
        raise ConfigError(f"grid.{group}: {describe_missing_option(group, name)}")
    text = (CONF / group / f"{name}.yaml").read_text(encoding="utf-8")
    try:
        plain = parse_yaml(text)
    except ConfigError as error:
        raise ConfigError(f"conf/{group}/{name}.yaml: {error}") from error
    if isinstance(plain, dict) and "defaults" not in plain and "@package" not in text:
        return plain
    return OmegaConf.to_container(compose_config([], f"{group}/{name}")[group], resolve=False)


def describe_option(group: str, name: str) -> str:
    """Return an option's comment without its command, or "" if there is no such option."""
    if name not in list_options(group):
        return ""
    lines = itertools.takewhile(
        lambda line: line.startswith("#"), (CONF / group / f"{name}.yaml").read_text().splitlines()
    )
    return " ".join(line.removeprefix("# ") for line in lines if not line.startswith("# python"))


def resolve_settings(cfg: DictConfig) -> Any:
    """Return plain settings; raise ConfigError if a reference is broken or a value is missing."""
    try:
        return OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        message = str(error.msg or error).splitlines()[0]
        raise ConfigError(
            f"{error.full_key or 'settings'}: {message}. Set a value, or correct the reference."
        ) from error


def resolve_without_grid(cfg: DictConfig) -> dict[str, Any]:
    """Return all settings resolved except the grid, whose references are known only in a cell."""
    grid, beside = cfg.get("grid"), cfg
    if OmegaConf.is_config(grid):
        beside, grid = copy_unresolved(cfg), OmegaConf.to_container(grid, resolve=False)
        beside.grid = None
    return {**resolve_settings(beside), "grid": grid}


def format_yaml(plain: Mapping[str, Any]) -> str:
    """Return plain settings as YAML, in which texts with "${" are references."""
    return OmegaConf.to_yaml(OmegaConf.create(dict(plain)))


def parse_yaml(text: str) -> Any:
    """Parse YAML into plain values, with references as text; raise ConfigError if it is invalid."""
    try:
        return OmegaConf.to_container(OmegaConf.create(text), resolve=False)
    except (YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(" ".join(str(error).split())) from error


def copy_unresolved(cfg: DictConfig) -> DictConfig:
    """Return a copy of a configuration that can be modified; interpolations are not resolved.

    OmegaConf's own copy takes four times as long.
    """
    cfg_copy: DictConfig = pickle.loads(pickle.dumps(cfg))  # noqa: S301 (bytes of this line alone)
    OmegaConf.set_struct(cfg_copy, None)
    OmegaConf.set_readonly(cfg_copy, None)
    return cfg_copy


def list_groups() -> list[str]:
    """Return the names of the groups, which are the folders of conf/."""
    return sorted(folder.name for folder in CONF.iterdir() if folder.is_dir())


def list_options(group: str) -> list[str]:
    """Return the names of the options of a group, which are its YAML files."""
    return sorted(
        str(file.relative_to(CONF / group).with_suffix(""))
        for file in (CONF / group).rglob("*.yaml")
    )


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


def has_key(cfg: DictConfig, key: str) -> bool:
    """Return whether a configuration has a dotted key, whatever its value."""
    return OmegaConf.select(cfg, key, default=OmegaConf) is not OmegaConf


def list_component_settings(cfg: DictConfig, key: str) -> list[str]:
    """Return the dotted names of all settings of a setting's component, including defaults.

    Args:
        cfg: Composed configuration.
        key: Dotted name of a setting, which may not exist.
    """
    parent, names = _find_component(cfg, key)
    return [f"{parent}.{name}" for name in names]


def is_component_setting(cfg: DictConfig, key: str) -> bool:
    """Return whether a key names a setting of a component, or an entry of a mapping among them,
    even one without a value.
    """
    parent, annotations = _find_component(cfg, key)
    name, _, entry = key.removeprefix(f"{parent}.").partition(".")
    if not entry:
        return name in annotations
    kinds = (annotations.get(name), *get_args(annotations.get(name)))
    return any(get_origin(kind) in (dict, Mapping) for kind in kinds)


def _find_component(cfg: DictConfig, key: str) -> tuple[str, dict[str, Any]]:
    """Return the dotted name and annotations of a setting's innermost component, if any."""
    parent = key.rpartition(".")[0]
    while parent:
        node = OmegaConf.select(cfg, parent, default=None)
        if isinstance(node, DictConfig) and "_target_" in node:
            try:
                component = import_component_class(str(node["_target_"]))
                hidden_names = (
                    {field.name for field in fields(component) if not field.repr}
                    if is_dataclass(component)
                    else set()
                )
                return parent, {
                    name: kind
                    for name, kind in read_annotations(component).items()
                    if name not in hidden_names
                }
            except Exception:
                break  # the check of settings reports a class that does not exist
        parent = parent.rpartition(".")[0]
    return "", {}
