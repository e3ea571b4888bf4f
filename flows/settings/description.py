"""Descriptions of the settings of components, from the annotations of their classes."""

from collections.abc import Iterator, Sequence
from typing import Any

from flows.settings.components import import_component_class
from flows.settings.door import compose
from winnow.identity.markers import describe_parameters


def format_choices(words: Sequence[str]) -> str:
    """Return a line per setting of the components of these choices, such as "retriever=dense"; ""
    without any.
    """
    lines: list[str] = []
    for word in words:
        group = word.partition("=")[0]
        lines += [f"{word}:", *_iter_lines(group, compose([word]).plain[group])]
    return "\n".join(lines)


def _iter_lines(key: str, node: Any) -> Iterator[str]:
    """Yield a line per setting of each component below a setting, with type, value and meaning."""
    if not isinstance(node, dict):
        return
    if "_target_" in node:
        component = import_component_class(str(node["_target_"]))
        yield f"  {key} ({component.__module__}.{component.__qualname__})"
        for name, kind, meaning in describe_parameters(component):
            value = (
                f" = {node[name]!r}" if name in node and not isinstance(node[name], dict) else ""
            )
            yield f"    {key}.{name}: {kind}{value}{f'  ({meaning})' if meaning else ''}"
    for name, child in node.items():
        yield from _iter_lines(f"{key}.{name}", child)
