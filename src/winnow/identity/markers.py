"""Markers of parameters: what the settings of a component mean for the identity of its results.

Stored results are reused only if the identity of the component that computed them is unchanged.
Every parameter of a component's constructor is part of the identity, unless its annotation says
otherwise. These annotations say what a parameter means; the identity, the check of types and the
reference of settings read the same ones:

- `path: Annotated[str, InputFile]` names a file or folder (or several, in a list, a mapping or a
  pattern), whose content is part of the identity. `options: Annotated[dict[str, Any],
  InputFile("data_files")]` does so in entries of a mapping;
- `base: Annotated[str, ModelName]` names a model: the digest of its weights, or its commit on the
  hub, identifies it;
- `path: Annotated[str, DatasetName]` may name a data set on the hub, which is identified by its
  commit;
- `gpu: Annotated[bool, SpeedOnly("the same vectors")]` changes how fast a component runs, but not
  what it computes;
- `nprobe: Annotated[int, SearchOnly]` changes what a search of a retriever returns, but not its
  index;
- `path: Annotated[str, NotAFile("a model's name on a server")]` has the name of a path, but is
  none.

A parameter that looks like a path (of the type Path, or named path, file, folder or base) needs one
of them. Otherwise the component is refused wherever it is opened, because results of other files
would have the same key.

A class may further declare

- `revision`: version number of its results, which is raised when equal settings give other results.
  Tests compare outputs with those stored for the revision (tests/golden). A class without a
  revision, and any class outside Winnow, is identified by its code instead (see
  `winnow.identity.code`);
- `needs_questions`: whether a retriever finds rankings by the ids or labels of questions, and thus
  cannot be searched with queries; and `uses_gold`: whether its rankings depend on gold passages;
- `resolve_settings(settings)`: a class method that returns the settings with every "auto" resolved.
"""

import inspect
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from difflib import get_close_matches
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from winnow.errors import ConfigError


@dataclass(frozen=True, slots=True, init=False)
class InputFile:
    """Marks a parameter that names files or folders to read, or has entries that name them."""

    entries: tuple[str, ...]

    def __init__(self, *entries: str) -> None:
        """Store the names of a mapping's entries, or none if the parameter itself names files."""
        object.__setattr__(self, "entries", entries)


class ModelName:
    """Marks a parameter that names a model: a folder, a file, or a name on the hub."""


class DatasetName:
    """Marks a parameter that may name a data set on the hub."""


class SearchOnly:
    """Marks a parameter of a retriever that only searches use."""


@dataclass(frozen=True, slots=True)
class SpeedOnly:
    """Marks a parameter that does not affect results, with the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotAFile:
    """Marks a parameter that is named like a path but names something else, with what it is."""

    reason: str


Marker = InputFile | ModelName | DatasetName | SearchOnly | SpeedOnly | NotAFile
_MARKERS = (InputFile, ModelName, DatasetName, SearchOnly, SpeedOnly, NotAFile)
_PATH_NAME = re.compile(r"(?:.*_)?(?:path|file|filename|filepath|folder|directory|dir|base)s?")
_DECLARATIONS = frozenset(
    {"revision", "resolve_settings", "reuses_prefixes", "needs_questions", "uses_gold", "inputs"}
)
"""Class attributes that a misspelling would silence."""
_FORMER_ATTRIBUTES = frozenset(
    {"input_files", "model_paths", "dataset_names", "speed_only", "search_only"}
)
"""Class attributes that would have no effect, because annotations of the parameters say the same.
"""


@lru_cache(maxsize=1000)
def read_annotations(component: type) -> Mapping[str, Any]:
    """Return the annotations of a component's parameters by name.

    Raises:
        ConfigError: If an annotation cannot be resolved or has a marker that is not one, if a
            parameter that looks like a path has no marker, or if the class has an attribute that
            looks like a declaration but is none.
    """
    _check_declarations(component)
    annotations: dict[str, Any] = {}
    for name, parameter in inspect.signature(component).parameters.items():
        annotation = parameter.annotation
        if isinstance(annotation, str):
            annotation = _resolve_annotation(component, name, annotation)
        annotations[name] = None if annotation is inspect.Parameter.empty else annotation
        try:
            markers = _find_markers(annotation)
            _check_entries(annotation, markers)
        except ConfigError as error:
            raise ConfigError(f"{_get_name(component)}: the parameter {name!r}: {error}") from None
        says = [marker for marker in markers if not isinstance(marker, SearchOnly)]
        if not name.startswith("_") and _looks_like_path(name, annotation) and not says:
            raise ConfigError(
                f"{_get_name(component)}: the parameter {name!r} looks like a path, but its "
                "annotation does not say what it names. Annotate it as Annotated[..., "
                'InputFile], ModelName, DatasetName, SpeedOnly("why") or NotAFile("what it is") '
                "of winnow.identity.markers. Otherwise results of other files would have the "
                "same key."
            )
    return annotations


def _resolve_annotation(component: type, name: str, annotation: str) -> Any:
    """Evaluate an annotation in the module of the base class that declares the parameter."""
    owners = [base for base in component.__mro__ if name in inspect.get_annotations(base)]
    if is_dataclass(component) and owners:
        names: dict[str, Any] = vars(sys.modules[owners[0].__module__])
    else:
        constructor: Any = component.__dict__.get("__init__")
        names = getattr(constructor, "__globals__", vars(sys.modules[component.__module__]))
    try:
        return eval(annotation, names)  # noqa: S307 (the class's own source)
    except NameError as error:
        if name.startswith("_"):
            return None
        raise ConfigError(
            f"{_get_name(component)}: the annotation {annotation!r} of the parameter {name!r} "
            f"cannot be resolved ({error}). Import its names at run time, not under "
            "TYPE_CHECKING."
        ) from None


def _get_name(component: type) -> str:
    return f"{component.__module__}.{component.__qualname__}"


def _looks_like_path(name: str, annotation: Any) -> bool:
    """Return whether a parameter is named like a path, or its type is or contains a path type."""
    if isinstance(annotation, type) and issubclass(annotation, os.PathLike):
        return True
    return any(_looks_like_path("", part) for part in get_args(annotation)) or (
        _PATH_NAME.fullmatch(name) is not None and annotation not in (bool, int, float)
    )


def _find_markers(annotation: Any) -> list[Marker]:
    """Return an annotation's markers, also within a union. A marker may lack its parentheses."""
    own = [_build(item) for item in getattr(annotation, "__metadata__", ()) if _is_marker(item)]
    return [
        *own,
        *(
            marker
            for part in get_args(annotation)
            if not _is_marker(part)
            for marker in _find_markers(part)
        ),
    ]


def _check_entries(annotation: Any, markers: Sequence[Marker]) -> None:
    """Raise ConfigError if a marker names entries of a value that has none."""
    for marker in markers:
        if isinstance(marker, InputFile) and marker.entries and not _has_entries(annotation):
            raise ConfigError(
                f"InputFile{marker.entries!r} names entries of a mapping, but the value is none. "
                "Write InputFile alone."
            )


def _has_entries(annotation: Any) -> bool:
    """Return whether values of a type are, or may be, mappings."""
    is_mapping = (get_origin(annotation) or annotation) in (dict, Mapping)
    return is_mapping or any(map(_has_entries, get_args(annotation)))


def _build(item: Any) -> Marker:
    """Return a marker, also of its class or its name alone.

    Raises:
        ConfigError: If the marker needs a reason, or is written as a text.
    """
    if isinstance(item, str):
        raise ConfigError(f"the marker {item!r} is a text; write it without quotation marks.")
    if item in (SpeedOnly, NotAFile):
        raise ConfigError(
            f'the marker {item.__name__} needs a reason, as in {item.__name__}("why").'
        )
    marker: Marker = item() if isinstance(item, type) else item
    return marker


def _is_marker(item: Any) -> bool:
    if isinstance(item, str):
        return item.partition("(")[0] in {marker.__name__ for marker in _MARKERS}
    return isinstance(item, _MARKERS) or (isinstance(item, type) and issubclass(item, _MARKERS))


def _check_declarations(component: type) -> None:
    """Raise ConfigError for a class attribute that resembles a declaration or is a former one."""
    known_names = _DECLARATIONS | _FORMER_ATTRIBUTES
    parameters = inspect.signature(component).parameters
    for base in component.__mro__:
        for name in vars(base):
            if name in _DECLARATIONS or name.startswith("_") or base.__module__ == "builtins":
                continue
            near = next(iter(get_close_matches(name, known_names, 1, 0.85)), None)
            if name in parameters or near is None:
                continue
            advice = (
                "Mark the parameters instead, as in path: Annotated[str, InputFile] (see "
                "winnow.identity.markers)."
                if near in _FORMER_ATTRIBUTES
                else f"Did you mean {near!r}? If it is something else, give it another name."
            )
            raise ConfigError(
                f"{_get_name(base)}: the class attribute {name!r} has no effect. {advice}"
            )


@lru_cache(maxsize=10_000)
def _select(component: type, kind: type[Marker]) -> Mapping[str, Any]:
    """Return the first marker of a kind of each parameter that has one, by name."""
    markers = {}
    for name, annotation in read_annotations(component).items():
        marker = next(
            (marker for marker in _find_markers(annotation) if isinstance(marker, kind)), None
        )
        if marker is not None:
            markers[name] = marker
    return markers


def get_speed_only_settings(component: type) -> Mapping[str, str]:
    """Return a class's settings that are marked as not affecting its results, with the reasons."""
    return {name: marker.reason for name, marker in _select(component, SpeedOnly).items()}


def get_search_only_settings(component: type) -> Sequence[str]:
    """Return the settings of a retriever that only its searches use, but for files, models and data
    sets, whose content names the index too.
    """
    contents = {
        name for kind in (InputFile, ModelName, DatasetName) for name in _select(component, kind)
    }
    return [name for name in _select(component, SearchOnly) if name not in contents]


def get_input_file_settings(component: type) -> Sequence[str]:
    """Return a class's input file settings, with mapping entries as "options.data_files"."""
    markers = _select(component, InputFile).items()
    return [
        f"{name}.{entry}" if entry else name
        for name, marker in markers
        for entry in marker.entries or ("",)
    ]


def get_model_path_settings(component: type) -> Sequence[str]:
    """Return the settings of a class that name models."""
    return list(_select(component, ModelName))


def get_dataset_name_settings(component: type) -> Sequence[str]:
    """Return the settings of a class that may name data sets on the hub."""
    return list(_select(component, DatasetName))


def resolve_component_settings(component: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a component, with every "auto" resolved by the class.

    Raises:
        ConfigError: If an "auto" is left, because other machines would compute something else under
            the same key.
    """
    resolve = getattr(component, "resolve_settings", None)
    resolved_settings = dict(settings) if resolve is None else dict(resolve(settings))
    speed_only = get_speed_only_settings(component)
    unresolved = [
        name
        for name, value in resolved_settings.items()
        if value == "auto" and name not in speed_only
    ]
    if unresolved:
        raise ConfigError(
            f"{_get_name(component)}: {unresolved[0]}=auto means something else on each machine. "
            "Define the class method resolve_settings(settings), which returns the settings with "
            "what it stands for."
        )
    return resolved_settings


def describe_parameters(component: type) -> list[tuple[str, str, str]]:
    """Describe the parameters of a component, for `--help` and the reference of settings.

    Returns:
        Name, type with its range, and meaning of each public parameter. The meaning is "" for a
        setting that has no marker.
    """
    return [
        (
            name,
            _describe_type(annotation),
            "; ".join(map(_describe_marker, _find_markers(annotation))),
        )
        for name, annotation in read_annotations(component).items()
        if not name.startswith("_")
    ]


def _describe_type(annotation: Any) -> str:
    """Describe the values of a type, such as "int, at least 1" or "'rank' or 'random'"."""
    if get_origin(annotation) is Annotated:
        limits = [
            f"{text} {bound}"
            for item in annotation.__metadata__
            for text, bound in _list_bounds(item)
        ]
        return ", ".join([_describe_type(annotation.__origin__), *limits])
    if get_origin(annotation) is Literal:
        return " or ".join(map(repr, get_args(annotation)))
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(
            "null" if part is type(None) else _describe_type(part) for part in get_args(annotation)
        )
    return (
        annotation.__name__
        if isinstance(annotation, type)
        else str(annotation).replace("typing.", "")
    )


def _list_bounds(item: Any) -> list[tuple[str, Any]]:
    """Return the limits that an annotation sets, with their words."""
    names = (("ge", "at least"), ("gt", "above"), ("le", "at most"), ("lt", "below"))
    return [(text, getattr(item, name)) for name, text in names if hasattr(item, name)]


def _describe_marker(marker: Marker) -> str:
    match marker:
        case InputFile():
            return (
                f"files whose content counts ({', '.join(marker.entries)})"
                if marker.entries
                else "a file whose content counts"
            )
        case ModelName():
            return "a model, whose weights or commit count"
        case DatasetName():
            return "a data set, whose files or commit count"
        case SearchOnly():
            return "only searches use it, so that the index is shared"
        case SpeedOnly():
            return f"does not affect results: {marker.reason}"
        case NotAFile():
            return marker.reason
