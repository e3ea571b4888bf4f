"""Text of `--help`: usage, groups, and component settings from the annotations of their classes."""

from collections.abc import Iterator, Sequence
from typing import Any

from flows.settings.components import import_component_class
from flows.settings.composition import compose_config, list_groups, list_options
from flows.settings.door import compose
from winnow.identity.markers import describe_parameters


def format_choices(words: Sequence[str]) -> str:
    """Return a line per component setting of these choices, such as "retriever=dense", or ""."""
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


def format_help(name: str, doc: str) -> str:
    """Return the text of `--help`: the module docstring, the usage, and the groups and options."""
    group_list = "\n".join(
        f"  {group:<10} {', '.join(list_options(group))}" for group in list_groups()
    )
    plain = [
        key for key in map(str, compose_config([])) if key not in list_groups() and key != "hydra"
    ]
    return (
        f"{doc.strip()}\n\nUsage: python -m flows.{name} [-m] [group=option ...] [key=value ...] "
        "[--params FILE] [--track FOLDER]\nWith -m, key=a,b,c runs one job per value. --params "
        "reads the settings from a file, as the stages of dvc.yaml do; --track links the "
        "finished artifacts into a folder for DVC.\n\nGroups and their options "
        f"(conf/<group>/<option>.yaml):\n{group_list}\n\nOther settings (conf/config.yaml):\n "
        f" {' '.join(plain)}\n\nAdd --cfg job to print the composed settings without running the "
        "stage. --help with group=option (retriever=dense) explains the settings of that choice."
    )
