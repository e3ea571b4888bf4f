"""Checks and completes overrides, also of overrides.yaml: every key must exist and take effect."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from flows.settings.composition import (
    compose_with_choices,
    describe_missing_option,
    has_key,
    is_group,
    list_component_settings,
    list_keys,
    list_options,
    parse_overrides,
)
from flows.settings.grid import collect_axes
from flows.settings.multirun import list_values, list_words
from flows.settings.references import overlap
from flows.settings.unknown_keys import (
    describe_unknown_key,
    find_new_keys,
    is_addable,
    list_option_names,
    select_first_option,
)
from winnow.errors import ConfigError

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override


_HEADER_LINES = 5
"""Lines of params.yaml among which its comments are."""


def complete_overrides(overrides: Sequence[str], *, grid: bool = True) -> list[str]:
    """Return overrides as Hydra takes them, after checking that each key and option exists.

    Hydra wants a `+` before every key that the composed configuration lacks, or `++` if it may have
    it. This is added for settings of components that the YAML leaves at their defaults
    (dataset.split.shuffle=true) and for new axes of the grid (grid.k=[1,5]).

    Args:
        overrides: Overrides in Hydra's syntax.
        grid: Whether to reject overrides of the grid's axes as well, because the values of the grid
            replace them.

    Raises:
        ConfigError: If a key or an option does not exist. The message suggests the nearest valid
            name.
    """
    overrides = [_quote_text(override) for override in overrides]
    parsed_overrides = parse_overrides(overrides)
    _check_options(parsed_overrides)
    new_keys = find_new_keys(parsed_overrides)
    completed_overrides = [
        f"++{text.lstrip('+')}" if key.key_or_group in new_keys else text
        for key, text in zip(parsed_overrides, overrides, strict=True)
    ]
    if grid:
        parsed_overrides = parse_overrides(completed_overrides)
        keys = list(_iter_changed_keys(parsed_overrides))
        for composed_grid, choices in _iter_grids(parsed_overrides):
            check_grid(keys, composed_grid, choices)
    return completed_overrides


_TEXTS = ("question", "artifact", "sweep.name", "report.out")
"""Settings whose value is a text as it was typed: question=1_1 is not a number."""


def _quote_text(override: str) -> str:
    """Quote the value of an override whose setting is text, so that it is taken as typed."""
    key, separator, value = override.partition("=")
    is_plain = (
        value
        and value[0] not in "'\""
        and value != "null"
        and "${" not in value
        and "," not in value
    )
    if key not in _TEXTS or not separator or not is_plain:
        return override
    escaped_value = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"{key}='{escaped_value}'"


def check_grid(
    keys: Iterable[str], grid: DictConfig | None, choices: Mapping[str, str] | None = None
) -> None:
    """Check that no changed setting is an axis of the grid, which would replace it in every cell.

    A setting within a group of the grid may be changed if the chosen option is in the grid and no
    other option there could have the setting: it then holds in every cell that it concerns.

    Args:
        keys: Dotted keys of the changed settings.
        grid: Grid with the settings of its options.
        choices: Name of the chosen option of each group; None if they are not known.

    Raises:
        ConfigError: If a key is an axis of the grid, or belongs to other options of an axis.
    """
    if grid is None:
        return
    axes = collect_axes(grid)
    for key in keys:
        axis = next((axis for axis in axes if f"{key}.".startswith(f"{axis}.")), None)
        if axis is None:
            continue
        if key != axis and is_group(axis):
            chosen_option = (choices or {}).get(axis)
            concerned = [
                name
                for name, option in grid[axis].items()
                if _could_have(option, key.removeprefix(f"{axis}."))
            ]
            concerned = concerned or list(grid[axis])  # a group at a package, which no option has
            if chosen_option in grid[axis] and set(concerned) <= {chosen_option}:
                continue
            scope = f"{chosen_option} alone" if chosen_option in grid[axis] else "none of them"
            raise ConfigError(
                f"{key}: the grid is over {axis} ({', '.join(map(str, grid[axis]))}), and this "
                f"override would hold for {scope}. Copy the YAML file in conf/{axis} to a new "
                f"name, change the copy, and set 'grid.{axis}=[name]'."
            )
        node = grid[axis] if axis in grid else OmegaConf.select(grid, axis)
        values = ", ".join(map(str, node))
        raise ConfigError(
            f"{key}: the grid is over {axis} ({values}), so this override would have no effect. "
            f"Remove it, or set 'grid.{axis}=[...]' to your own values, or add grid=null to run "
            "the single cell of the other settings."
        )


def _could_have(option: DictConfig, key: str) -> bool:
    """Return whether an option has a key, or a component that could take it as an argument."""
    node: Any = option
    for name in key.split("."):
        if not isinstance(node, DictConfig):
            return False
        if name not in node:
            return "_target_" in node
        node = node.get(name)
    return True


COPIED = "# Copied to what refers to them: "
"""Start of the params.yaml line with the settings copied to the settings that refer to them."""


def load_params(path: Path, overrides: Sequence[str], *, grid: bool = True) -> DictConfig:
    """Load a composed file, as the DVC stages do, and apply `key=value` overrides of its keys.

    Args:
        path: File that `python -m flows.compose` wrote.
        overrides: Overrides of single settings; groups cannot be changed any more.
        grid: Whether to reject overrides of the grid's axes, because the values of the grid replace
            them.
    """
    if not path.is_file():
        raise ConfigError(
            f"{path} does not exist. Run `python -m flows.compose` to create it from conf/."
        )
    cfg = OmegaConf.load(path)
    assert isinstance(cfg, DictConfig)
    lines = path.read_text(encoding="utf-8").splitlines()[:_HEADER_LINES]
    copied_names = [
        name
        for line in lines
        if line.startswith(COPIED)
        for name in line.removeprefix(COPIED).split()
    ]
    changed_keys: list[str] = []
    for override in overrides:
        key, _, text = override.partition("=")
        if is_group(key):
            raise ConfigError(
                f"{override}: {path} is composed already, so its options cannot change. Choose the "
                "option in overrides.yaml and run `python -m flows.compose`, or run without "
                "--params."
            )
        if any(overlap(key, name) for name in copied_names):
            raise ConfigError(
                f"{override}: other settings refer to {key}, and {path} has copies of its value. "
                "Set it in overrides.yaml and run `python -m flows.compose`, or run without "
                "--params."
            )
        if not has_key(cfg, key) and not is_addable(cfg, key):
            near = list_component_settings(cfg, key)
            raise ConfigError(describe_unknown_key(key, [*list_keys(cfg), *near]))
        parsed_value = (
            text
            if key in _TEXTS and not text.startswith(("'", '"', "null", "$"))
            else _parse_value(override, text)
        )
        value = _fill_names(cfg, key, parsed_value, path)
        OmegaConf.update(
            cfg, key, value, merge=not (isinstance(value, list) or key.startswith("grid"))
        )
        changed_keys += _list_leaf_keys(key, value)
    if grid:
        check_grid(
            [key for key in changed_keys if key.partition(".")[0] != "grid"], cfg.get("grid")
        )
    return cfg


def _fill_names(cfg: DictConfig, key: str, value: Any, path: Path) -> Any:
    """Replace option names in a grid override by their settings in a composed file's grid.

    Raises:
        ConfigError: If the file has no settings of an option.
    """
    if key == "grid" and isinstance(value, dict):
        return {
            name: _fill_names(cfg, f"grid.{name}", inner, path) for name, inner in value.items()
        }
    group = key.removeprefix("grid.")
    if group == key or not is_group(group) or not isinstance(value, list):
        return value
    options = OmegaConf.select(cfg, key)
    known_options = (
        OmegaConf.to_container(options, resolve=False) if isinstance(options, DictConfig) else {}
    )
    assert isinstance(known_options, dict)
    if unknown := [str(name) for name in value if name not in known_options]:
        raise ConfigError(
            f"{key}={unknown}: {path} is composed already and has the settings of "
            f"{list(known_options)} "
            "alone. Choose the options in overrides.yaml and run `python -m flows.compose`, or "
            "run without --params."
        )
    return {name: known_options[name] for name in value}


def _parse_value(override: str, text: str) -> Any:
    """Parse a composed file's override value as YAML, where `${name}` refers to another setting."""
    try:
        return OmegaConf.to_container(OmegaConf.create(f"value: {text}"), resolve=False)["value"]  # type: ignore[call-overload, index]
    except (YAMLError, OmegaConfBaseException) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"{override!r} is not key=value with a value in YAML ({reason}). Quote texts, as in "
            "name='a: b'."
        ) from error


def _check_options(parsed: Iterable["Override"]) -> None:
    """Raise ConfigError if an override chooses an option that does not exist."""
    for override in parsed:
        group = override.key_or_group
        if not is_group(group) or override.is_delete():
            continue
        known_names = list_options(group)
        for name in map(str, list_option_names(override)):
            if name not in known_names:
                raise ConfigError(f"{group}={name}: {describe_missing_option(group, name)}")


def _iter_changed_keys(parsed: Iterable["Override"]) -> Iterator[str]:
    """Yield keys and groups that overrides change outside the grid; a mapping yields its keys."""
    for override in parsed:
        key = override.package or override.key_or_group
        if not override.is_delete() and key.partition(".")[0] != "grid":
            yield from dict.fromkeys(
                leaf for value in list_values(override) for leaf in _list_leaf_keys(key, value)
            )


def _list_leaf_keys(key: str, value: Any) -> list[str]:
    """Return the dotted keys of the values in a mapping, or the key itself for any other value."""
    if not isinstance(value, Mapping | DictConfig) or not value:
        return [key]
    leaves: list[str] = []
    for name, inner in value.items():
        leaves += _list_leaf_keys(f"{key}.{getattr(name, 'text', name)}", inner)
    return leaves


def _iter_grids(
    parsed: Sequence["Override"],
) -> Iterator[tuple[DictConfig | None, Mapping[str, str]]]:
    """Yield the grid and chosen options of each combination of experiments and grid overrides.

    Other options are the first that are chosen, as in the jobs, so that Hydra composes them once;
    but for options within other settings (prompt@reader.trained_on), which the check is about.
    """
    words: list[list[str]] = []
    has_grid = False
    for override in parsed:
        group, option = override.key_or_group.partition(".")[0], select_first_option(override)
        if group == "grid" or (group == "experiment" and option):
            words.append(list_words(override))
            has_grid = True
        elif option and override.package is None:
            words.append([option])
    for combination in itertools.product(*words) if has_grid else ():
        cfg, options = compose_with_choices(combination)
        yield cfg.get("grid"), options
