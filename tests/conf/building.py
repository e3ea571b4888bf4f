"""Builds what the settings of cells describe."""

import inspect

from flows.settings.components import Component, import_component_class
from flows.settings.typed import Settings


def build_components(settings: Settings, group: str = "") -> None:
    """Build every component of the cells, or of a group of settings in them."""
    built: list[Component] = []
    for cell in settings.cells:
        for component in _list_components(cell.plain.get(group, cell.plain)):
            if component not in built:
                built.append(component)
                assert component.build(**_objects(cell, component.target)) is not None


def _objects(settings: Settings, target: str) -> dict[str, object]:
    """What the flows hand to a class beside its settings."""
    name = target.rpartition(".")[2]
    if (
        ".strategies." in target
        and "prompt" in inspect.signature(import_component_class(target)).parameters
    ):
        return {"prompt": settings.prompt.build(), "decoding": settings.decoding.build()}
    if (
        ".readers." in target
        and {"path", "name"} <= inspect.signature(import_component_class(target)).parameters.keys()
    ):
        return {"path": "somewhere", "name": "x"}
    if ".estimators." in target:
        return {"path": "somewhere"} if settings.estimator.base is not None else {}
    if name == "LocalSearch":
        return {"searcher": None, "passages": None, "identity": "x"}
    if name == "WebSearch":
        return {"identity": "x"}
    learners = {
        "ReRag": {"estimator": None},
        "RelevanceRegression": {"estimator": None},
        "Rag": {"generator": None},
        **{name: {"base": "somewhere", "task": None} for name in ("Ppo", "Grpo", "Rloo")},
        "Fid": {"generator": None},
    }
    return learners.get(name, {})


def _list_components(node: object) -> list[Component]:
    """The outermost mappings with a `_target_`."""
    if not isinstance(node, dict):
        return []
    if "_target_" in node:
        return [Component(node)]
    return [component for inner in node.values() for component in _list_components(inner)]
