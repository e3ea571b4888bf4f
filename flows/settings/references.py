"""References between settings, resolved by a composed file unless the grid changes the target."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from omegaconf import DictConfig, ListConfig

from flows.settings.composition import copy_unresolved, is_group, list_options, resolve_settings
from flows.settings.grid import collect_axes

_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?\s*(\.*)([\w.]+)")
"""A reference to another setting, with the dots of a relative one."""


def resolve_beside_grid(cfg: DictConfig) -> tuple[dict[str, Any], list[str]]:
    """Resolve the references that are the same in every cell, and keep those that the grid changes.

    An encoder that is an axis, for example, is what a retriever's reference to the encoder means in
    each cell.

    Returns:
        The plain settings, and the dotted names of those whose values were copied to what refers to
        them.
    """
    axes = list(collect_axes(cfg.get("grid")))
    references = dict(_iter_references(cfg))
    changing = set(axes)
    while True:
        new = {
            _name_in_cell(path)
            for path, text in references.items()
            if any(overlap(target, one) for target in _list_targets(path, text) for one in changing)
        } - changing
        if not new:
            break
        changing |= new
    values = {
        path: text
        for path, text in references.items()
        if _name_in_cell(path) in changing - set(axes)
    }
    beside = copy_unresolved(cfg)
    for path in values:
        _set_item(beside, path, None)  # it may refer to what only a cell has
    plain: dict[str, Any] = resolve_settings(beside)
    for path, text in values.items():
        _set_item(plain, path, text)
    copied_names = {
        target
        for path, text in references.items()
        if path not in values
        for target in _list_targets(path, text)
    }
    return plain, sorted(target for target in copied_names if target.partition(".")[0] in plain)


def _set_item(node: Any, path: Sequence[Any], value: Any) -> None:
    """Set the item at a path of names and numbers."""
    *parents, name = path
    for parent in parents:
        node = node[parent]
    node[name] = value


def _iter_references(
    node: Any, path: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield the path and the text of each setting that is a reference."""
    if node._is_interpolation():
        yield path, str(node._value())
    elif isinstance(node, DictConfig) and not node._is_none():
        for name in node:
            yield from _iter_references(node._get_node(name), (*path, str(name)))
    elif isinstance(node, ListConfig) and not node._is_none():
        for number in range(len(node)):
            yield from _iter_references(node._get_node(number), (*path, number))


def _list_targets(path: tuple[Any, ...], text: str) -> list[str]:
    """Return the dotted names, as in a cell, of the settings to which a reference refers."""
    targets = []
    for dots, name in _REFERENCE.findall(text):
        around = path[: len(path) - len(dots)] if dots else ()
        targets.append(_name_in_cell((*around, *name.split("."))))
    return targets


def _name_in_cell(path: tuple[Any, ...]) -> str:
    """Return a setting's dotted name in a cell, where an option of the grid is the group itself."""
    if (
        path[0] == "grid"
        and len(path) > 2
        and is_group(str(path[1]))
        and path[2] in list_options(str(path[1]))
    ):
        path = (path[1], *path[3:])
    return ".".join(map(str, path))


def overlap(one: str, other: str) -> bool:
    """Return whether one of two dotted names is the other, or a setting within it."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")
