"""Keys of overrides that the configuration lacks: settings of a component, or mistyped ones."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from flows.settings.composition import (
    compose_config,
    has_key,
    is_component_setting,
    is_group,
    list_component_settings,
    list_groups,
    list_keys,
)
from flows.settings.grid import COMMAND_SETTINGS
from flows.settings.multirun import list_values, list_words
from flows.settings.sections import Section
from flows.settings.typed import Settings
from winnow.errors import ConfigError, suggest_name
from winnow.sweeps.spec import IGNORED_GROUPS

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override


_SURELY_MISTYPED = 0.85
"""Similarity of a name to a known one from which no other setting can be meant."""


_NO_AXES = (*COMMAND_SETTINGS, *IGNORED_GROUPS)
"""Settings and groups that no cell of a grid reads."""


_AXES_OF_SWEEPS = (
    "sweep.split",
    "sweep.limit",
    "sweep.closed_book_filter",
    "sweep.closed_book_keeps",
)
"""Settings of `sweep` that cells read."""


def find_new_keys(parsed: Sequence["Override"]) -> set[str]:
    """Return the missing keys that the configuration may have; raise ConfigError for any others."""
    choices = [choice for override in parsed if (choice := select_first_option(override))]
    keys = {
        override.key_or_group: override.is_delete()
        for override in parsed
        if not (override.is_add() or override.is_force_add())
        and not (override.key_or_group.startswith("hydra") or is_group(override.key_or_group))
    }
    if not keys:
        return set()
    _refuse_mistyped(keys)
    cfg = compose_config(choices)
    known_keys = set(list_keys(cfg))
    new_keys = keys.keys() - known_keys
    if any(override.is_sweep_override() and is_group(override.key_or_group) for override in parsed):
        new_keys |= {
            key for key in keys if not keys[key] and is_component_setting(cfg, key)
        }  # another option may lack it
    for key in sorted(new_keys - known_keys):
        if keys[key] or not is_addable(cfg, key):
            near = list_component_settings(cfg, key)
            raise ConfigError(describe_unknown_key(key, known_keys | {*list_groups(), *near}))
    named_whole = (
        key for key in keys if key.startswith("grid.") and key in known_keys
    )  # by an axis "reader.base" of the grid
    return new_keys | {key for key in named_whole if not has_key(cfg, key)}


def _refuse_mistyped(keys: Iterable[str]) -> None:
    """Raise ConfigError for a key close to a known one, before composing anything to list keys."""
    for key in keys:
        section, *names = key.split(".")
        known_names, fields = {*Settings.model_fields, *list_groups()}, Settings.model_fields
        if (
            names and section in fields
        ):  # a setting of a section, of which the class knows all names
            annotation = fields[section].annotation
            fields = (
                annotation.model_fields
                if isinstance(annotation, type) and issubclass(annotation, Section)
                else {}
            )
            known_names, names = {f"{section}.{name}" for name in fields}, names[1:]
        name = key.removesuffix("".join(f".{inner}" for inner in names))
        if name not in known_names and suggest_name(name, known_names, _SURELY_MISTYPED):
            raise ConfigError(describe_unknown_key(name, known_names))


def is_addable(cfg: Any, key: str) -> bool:
    """Return whether a missing key is a component's setting or a grid axis over a setting."""
    axis = key.removeprefix("grid.")
    if axis == key:
        return is_component_setting(cfg, key)
    if axis.partition(".")[0] in _NO_AXES and axis not in _AXES_OF_SWEEPS:
        return False
    return is_group(axis) or is_component_setting(cfg, axis) or has_key(cfg, axis)


def select_first_option(override: "Override") -> str:
    """Return an override's option choice, the first of a multirun, or "" for other overrides."""
    if (
        not is_group(override.key_or_group)
        or override.is_delete()
        or not list_option_names(override)
    ):
        return ""
    return list_words(override)[0]


def list_option_names(override: "Override") -> list[Any]:
    """Return the option names of an override, with lists of names flattened."""
    names: list[Any] = []
    for value in list_values(override):
        names += value if isinstance(value, list) else [value]
    return [name for name in names if name is not None]


def describe_unknown_key(key: str, known: Iterable[str]) -> str:
    """Return the message for a key that does not exist, with the nearest of the known keys."""
    if key.startswith("grid."):
        axis = key.removeprefix("grid.")
        return f"The grid has no axis {axis!r}, and there is no such setting." + suggest_name(
            axis, known
        )
    endings = {name.rpartition(".")[2]: name for name in sorted(known, reverse=True)}
    near = get_close_matches(key, endings, n=1, cutoff=_SURELY_MISTYPED)
    return (
        f"There is no setting {key!r}."
        + (suggest_name(key, known) or (f" Did you mean {endings[near[0]]!r}?" if near else ""))
        + " `--help` lists the groups, and the files in conf/ show every key."
    )
