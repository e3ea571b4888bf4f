"""Turns settings into objects, at this one place: `_target_` names the class, `objects` are handed to it as they are."""

import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hydra.errors import InstantiationException
from hydra.utils import get_class, instantiate
from omegaconf import DictConfig, OmegaConf

from winnow.errors import ConfigError, WinnowError


def build(node: DictConfig, **objects: Any) -> Any:
    """Return the object that a config node describes; no config type reaches it.

    Raises:
        ConfigError: where the class refuses its settings or does not know one of them.

    """
    _check_types(node)
    try:
        return instantiate(node, _partial_=True, _convert_="all")(**objects)
    except InstantiationException as error:
        if isinstance(error.__cause__, WinnowError):
            raise error.__cause__ from None
        raise ConfigError(f"{node.get('_target_')}: {error.__cause__ or error}") from error
    except TypeError as error:
        raise ConfigError(f"{node.get('_target_')} does not take these settings: {error}") from error


def _check_types(node: DictConfig) -> None:
    """Check plain settings against the annotations of the class, before it computes with them."""
    try:
        component = get_class(str(node.get("_target_")))
        annotations = get_type_hints(component)
    except Exception:
        return
    settings: Any = OmegaConf.to_container(node, resolve=True)
    for name, value in settings.items():
        if name in annotations and not _fits(value, annotations[name]):
            expected = getattr(annotations[name], "__name__", annotations[name])
            raise ConfigError(f"{component.__name__}: {name}={value!r}; expected {expected}.")


def _fits(value: Any, annotation: Any) -> bool:
    """Return whether a plain value may have an annotated type; annotations of other kinds accept anything."""
    if get_origin(annotation) in (Union, types.UnionType):
        return any(_fits(value, option) for option in get_args(annotation))
    if get_origin(annotation) is Literal:
        return not isinstance(value, dict | list)
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation in (str, bool):
        return isinstance(value, annotation)
    return annotation is not type(None) or value is None
