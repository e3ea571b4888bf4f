"""Interfaces of components: whether a class in the settings has what the code behind them uses."""

from collections.abc import Iterator
from functools import cache
from inspect import get_annotations, isclass, isfunction
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from typing_extensions import is_protocol

from winnow.protocols import list_missing_members


@cache
def explain_mismatch(component: type, interface: Any) -> str:
    """Return why a class does not implement an interface, or "" if it does.

    A class implements a protocol by having its members: those that it defines or inherits, and
    attributes that it annotates or that its methods set. It implements any other class by deriving
    from it. A class with `__getattr__` may have any member.

    Args:
        component: Class that settings name.
        interface: Annotation of the place where it is used. What names no class, such as Any,
            accepts every component.
    """
    kinds = list(_iter_classes(interface))
    reasons = [_explain_class(component, kind) for kind in kinds]
    return reasons[0] if reasons and all(reasons) else ""


def _iter_classes(interface: Any) -> Iterator[type]:
    """Yield the classes that an annotation names, for those of a union each."""
    origin = get_origin(interface)
    if origin in (Union, UnionType):
        for one in get_args(interface):
            yield from _iter_classes(one)
    elif origin is Annotated:
        yield from _iter_classes(get_args(interface)[0])
    elif interface is not Any and isclass(origin or interface):
        yield origin or interface


def _explain_class(component: type, interface: type) -> str:
    name = f"{interface.__module__}.{interface.__qualname__}"
    if not is_protocol(interface):
        return "" if issubclass(component, interface) else f"is not derived from {name}"
    if hasattr(component, "__getattr__"):
        return ""
    missing_members = list_missing_members(interface, set(_iter_members(component)))
    return f"lacks {', '.join(missing_members)}, which {name} asks for" if missing_members else ""


def _iter_members(component: type) -> Iterator[str]:
    yield from dir(component)
    for base in component.__mro__:
        yield from get_annotations(base)
        for method in filter(isfunction, vars(base).values()):
            yield from method.__code__.co_names


def get_item_interface(annotation: Any) -> Any:
    """Return the interface that an annotation gives to list items or mapping values, or Any."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return get_item_interface(arguments[0])
    if origin in (Union, UnionType):
        items = [item for one in arguments if (item := get_item_interface(one)) is not Any]
        return items[0] if len(items) == 1 else Any
    type_arguments = [one for one in arguments if one is not Ellipsis]
    return type_arguments[-1] if type_arguments else Any
