"""Values of a component's parameters, checked against the annotations of its class."""

import operator
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt

from winnow.errors import ConfigError, check_choice, check_fields
from winnow.identity.markers import read_annotations


@dataclass(frozen=True, slots=True, init=False)
class Template:
    """Marks a parameter that is a template with these fields, such as "{question}"."""

    required: tuple[str, ...]
    optional: tuple[str, ...]

    def __init__(self, *required: str, optional: tuple[str, ...] = ()) -> None:
        """Store the names of the fields that it must have, and of those that it may have."""
        object.__setattr__(self, "required", required)
        object.__setattr__(self, "optional", optional)


_BOUNDS = {
    Ge: (operator.ge, "at least"),
    Gt: (operator.gt, "above"),
    Le: (operator.le, "at most"),
    Lt: (operator.lt, "below"),
}


@dataclass(frozen=True, slots=True)
class _Rule:
    """The values that an annotation allows: choices, a range or a template, and perhaps None."""

    choices: Any = None
    bounds: tuple[Any, ...] = ()
    templates: tuple[Template, ...] = ()
    is_optional: bool = False

    def check(self, setting: str, value: Any) -> None:
        """Raise ConfigError if a value is not allowed."""
        if value is None and self.is_optional:
            return
        if self.choices is not None:
            check_choice(setting, value, self.choices)
        for template in self.templates:
            check_fields(setting, value, template.required, template.optional)
        limits = [(*_BOUNDS[type(bound)], *astuple(bound)) for bound in self.bounds]
        if not all(is_within(value, limit) for is_within, _, limit in limits):
            texts = " and ".join(f"{text} {limit}" for _, text, limit in limits)
            raise ConfigError(
                f"{setting} must be {texts}{', or null' if self.is_optional else ''}; received "
                f"{value!r}."
            )


def check_values(setting: str, component: Any) -> None:
    """Check attributes against the `Literal`s, bounds such as `Ge(1)` and `Template`s of their
    annotations.

    The command line checks the settings of a component before it is constructed; this check is for
    scripts that construct it. A subclass with a constructor of its own is checked as far as its
    parameters are attributes.

    Args:
        setting: Dotted name of the component's settings, for the message.
        component: Object whose attributes are named as the parameters of its class.

    Raises:
        ConfigError: If a value is out of range, not a choice, or a template with other fields.
    """
    for name, rule in _read_rules(component.__class__).items():
        if hasattr(component, name):
            rule.check(f"{setting}.{name}", getattr(component, name))


@cache
def _read_rules(component: type) -> Mapping[str, _Rule]:
    try:
        annotations = read_annotations(component)
    except ConfigError:  # settings cannot name such a class, but a script may construct it
        return {}
    rules = {name: _find_rule(value) for name, value in annotations.items()}
    return {name: rule for name, rule in rules.items() if rule != _Rule()}


def _find_rule(annotation: Any) -> _Rule:
    """Return the rule of an annotation, which is empty if it allows all values of its types."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return _Rule(annotation)
    if origin is Annotated:
        inner = _find_rule(arguments[0])
        bounds = tuple(marker for marker in arguments[1:] if type(marker) in _BOUNDS)
        templates = tuple(marker for marker in arguments[1:] if isinstance(marker, Template))
        return replace(inner, bounds=(*inner.bounds, *bounds), templates=templates)
    if origin in (Union, UnionType):
        others = [argument for argument in arguments if argument is not NoneType]
        if len(others) == 1:
            return replace(_find_rule(others[0]), is_optional=True)
    return _Rule()
