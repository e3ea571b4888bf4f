"""Components: classes that settings name by a `_target_`, which are checked and constructed here.

A section of the settings declares the interface of each of its components, such as
`Component[Strategy]`: the class is checked against it, and `build` returns it.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Generic, TypeAlias, TypeVar, get_args

from hydra.utils import get_class
from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import CoreSchema, core_schema

from flows.settings.interfaces import explain_mismatch, get_item_interface
from winnow.errors import ConfigError, WinnowError, suggest_name
from winnow.identity.markers import read_annotations

T = TypeVar("T")


class Component(Mapping[str, Any], Generic[T]):
    """Read-only mapping of settings, from which `build` makes an object of the class `_target_`.

    Args:
        plain: The plain settings.
        interface: Class or protocol of the object, or Any.
    """

    __slots__ = ("interface", "plain")

    def __init__(self, plain: dict[str, Any], interface: Any = Any) -> None:
        """Keep the settings."""
        self.plain = plain
        self.interface = interface

    def __getitem__(self, name: str) -> Any:
        return self.plain[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.plain)

    def __len__(self) -> int:
        return len(self.plain)

    @property
    def target(self) -> str:
        """Return the dotted name of the class; raise ConfigError if the setting was null."""
        if not self:
            raise ConfigError(
                "A class is needed where the setting is null. Choose an option that has one."
            )
        return str(self.plain["_target_"])

    @property
    def component_class(self) -> type[T]:
        """Import and return the class; raise ConfigError if there is none."""
        return import_component_class(self.target)

    def find_declaring(self, attribute: str) -> "Component[Any] | None":
        """Return the first component, this one or one inside it, whose class has a true attribute
        of this name, or None.
        """
        components = (component for _, component in iter_components(self.plain))
        return next((one for one in components if getattr(one.component_class, attribute, 0)), None)

    def build(self, **objects: Any) -> T:
        """Build the object.

        Nested components are built first. Hydra's `instantiate` would read a text with "${" as a
        reference once more.

        Args:
            **objects: Further arguments of the class, passed unchanged.

        Raises:
            ConfigError: If the class rejects the settings.
        """
        settings = {name: _build(value) for name, value in self.plain.items() if name != "_target_"}
        try:
            return self.component_class(**(settings | objects))
        except WinnowError:
            raise
        except TypeError as error:
            raise ConfigError(f"{self.target} does not take these settings: {error}") from error
        except (ValueError, OSError) as error:
            raise ConfigError(f"{self.target}: {error}") from error

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        (interface,) = get_args(source) or (Any,)

        def parse(value: Any) -> "Component[Any]":
            if isinstance(value, Component):
                return value
            if not isinstance(value, dict) or "_target_" not in value:
                raise ValueError("the settings of a class, with its name as _target_")
            return cls(value, interface)

        return core_schema.no_info_plain_validator_function(parse)


NOTHING: Component[Any] = Component({})
MaybeComponent: TypeAlias = Annotated[
    Component[T], BeforeValidator(lambda value: NOTHING if value is None else value)
]
"""A component, or null, which is an empty one."""


def _build(value: Any) -> Any:
    """Build the components in a setting, at any depth, and return plain lists and mappings."""
    if isinstance(value, dict):
        if "_target_" in value:
            return Component(value).build()
        return {name: _build(inner) for name, inner in value.items()}
    return [_build(inner) for inner in value] if isinstance(value, list | tuple) else value


def iter_mappings(node: Any, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a mapping and all mappings inside it, with dotted names, except a grid's options."""
    if isinstance(node, dict):
        yield name, node
        for key, inner in node.items():
            if name or key != "grid":
                yield from iter_mappings(inner, f"{name}.{key}" if name else str(key))


def iter_components(node: Any, name: str = "") -> Iterator[tuple[str, Component[Any]]]:
    """Yield the dotted name and the settings of every component, at any depth."""
    return (
        (key, Component(settings))
        for key, settings in iter_mappings(node, name)
        if "_target_" in settings
    )


def import_component_class(target: str, setting: str = "_target_") -> type:
    """Import the class that a `_target_` names.

    Args:
        target: Dotted name of the class.
        setting: Dotted name of the setting, for the message.

    Raises:
        ConfigError: If there is no such class, or if its module cannot be imported.
    """
    try:
        return get_class(target)
    except Exception as error:
        module = target.rpartition(".")[0]
        if cause := _explain_import_error(module):
            message = f"{setting}={target!r}: {module} cannot be imported ({cause})."
        else:
            message = (
                f"{setting}={target!r}: there is no such class ({error}). Correct it in the YAML."
            )
        raise ConfigError(message) from error


def _explain_import_error(module: str) -> str:
    """Return why a module that exists cannot be imported, or "" if it can, or does not exist."""
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        is_missing = f"{module}.".startswith(f"{error.name}.")
        return "" if is_missing else f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def check_component(key: str, node: Mapping[str, Any], interface: Any = Any) -> None:
    """Check a component and its nested components against the annotations of their classes.

    Args:
        key: Dotted name of the component, for messages.
        node: Settings of the component.
        interface: Class or protocol that the class must implement.

    Raises:
        ConfigError: If there is no such class or setting, if a class does not implement its
            interface, or if a value has the wrong type or is out of range.
    """
    target = str(node["_target_"])
    component = import_component_class(target, f"{key}._target_")
    if reason := explain_mismatch(component, interface):
        raise ConfigError(f"{key}._target_={target!r}: the class {reason}.")
    check_parameters(key, node, component)


def check_parameters(key: str, node: Mapping[str, Any], component: type) -> None:
    """Check settings against the annotations of the class that they are parameters of."""
    annotations = read_annotations(component)
    for name, value in node.items():
        if name == "_target_":
            continue
        if name not in annotations:
            raise ConfigError(
                f"{key}.{name}: {component.__name__} has no such setting."
                + suggest_name(name, annotations)
            )
        if _contains_component(value):
            _check_inner(f"{key}.{name}", value, annotations[name])
        else:
            _check_value(f"{key}.{name}", value, annotations[name])


def _check_inner(key: str, value: Any, annotation: Any) -> None:
    """Check the components in a value, of which a list or mapping may have several."""
    if isinstance(value, Mapping) and "_target_" in value:
        check_component(key, value, annotation)
        return
    inner = get_item_interface(annotation)
    if isinstance(value, Mapping | list):
        parts = value.items() if isinstance(value, Mapping) else enumerate(value)
        for name, part in parts:
            _check_inner(f"{key}.{name}", part, inner)


def _contains_component(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "_target_" in value or any(map(_contains_component, value.values()))
    return isinstance(value, list) and any(map(_contains_component, value))


def _check_value(key: str, value: Any, annotation: Any) -> None:
    """Raise ConfigError if a value is not finite or does not match its annotation, if any."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{key}={value}: expected a finite number.")
    if annotation is None:
        return
    try:
        adapter = _build_adapter(annotation)
    except PydanticUserError:
        return  # the annotation is a class of Winnow, which checks its own values
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        raise ConfigError(
            f"{key}={value!r}: expected {describe_expected(error.errors())}."
        ) from None


@cache
def _build_adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation, config=ConfigDict(strict=True))


def describe_expected(errors: Sequence[Any]) -> str:
    """Describe the values that are allowed, by the errors of one value."""
    expected_texts = [
        str(part["ctx"]["expected"]) for part in errors if part["type"] == "literal_error"
    ]
    words = [word for text in expected_texts for word in re.findall(r"'([^']*)'", text)]
    if words:
        return "one of " + ", ".join(words)
    messages = [
        str(part["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")
        for part in errors
    ]
    return "; or ".join(dict.fromkeys(messages))
