"""Checks the types, allowed words and ranges of all settings before a stage runs.

Settings of components are checked against the annotations of their classes, and all others against `SETTINGS`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt
from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf
from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from typing_extensions import TypedDict

from flows._identity import iter_mappings
from flows._stages import Stage, list_stages
from winnow.assets import Asset
from winnow.contexts.build import RankBy
from winnow.errors import ConfigError, suggest_name
from winnow.identity.markers import read_annotations

_Count = Annotated[int, Ge(1)]
_CountOrNull = _Count | None
_NonNegative = Annotated[int, Ge(0)]
_Positive = Annotated[float, Gt(0)]
_MAX_NAME = 200


def _check_slurm_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Raise ValueError if a parameter other than slurm_additional_parameters is a mapping."""
    for name, value in parameters.items():
        if isinstance(value, dict) and name != "slurm_additional_parameters":
            raise ValueError(f"a text, number or list for {name}")
    return parameters


def _check_name(name: str) -> str:
    """Raise ValueError unless a name is one that MLflow, Prefect, DVC and file systems accept, with "/" between its parts."""
    parts = name.split("/")
    if len(name.encode()) > _MAX_NAME or any(part.strip() != part or part in ("", ".", "..") for part in parts):
        raise ValueError(f"a name of 1 to {_MAX_NAME} bytes, such as mine or papers/mine, without spaces around its parts")
    if not name.isprintable() or set(name) & set('\\:*?"<>|'):
        raise ValueError('a name without control characters and without any of \\ : * ? " < > |')
    return name


def _check_goal(name: str) -> str:
    """Raise ValueError unless a stage reads others, so that it can be a goal of `flows.pipeline`."""
    return _check_stage(name, lambda stage: bool(stage.reads))


def _check_sharded(name: str) -> str:
    """Raise ValueError unless a stage has shards."""
    return _check_stage(name, lambda stage: bool(stage.shards))


def _check_stage(name: str, condition: Callable[[Stage], bool]) -> str:
    names = [stage.name for stage in list_stages() if condition(stage)]
    if name not in names:
        raise ValueError(f"one of {', '.join(names)}")
    return name


class _Training(TypedDict):
    """What the settings of a training have, by which a name in their place is refused."""

    name: str
    mix: dict[str, Any]
    settings: dict[str, Any]


_JOINT: Mapping[str, Any] = {
    "trainable": list[str],
    "data.split": str,
    "data.questions": _CountOrNull,
    "data.contexts": _CountOrNull,
    "data.dev": str,
    "data.dev_questions": _CountOrNull,
    "data.dev_contexts": _CountOrNull,
}
"""Types of the settings of a joint training, which are those of two groups."""
SETTINGS: Mapping[str, Any] = {
    "k": _NonNegative,
    "rank_by": RankBy,
    "depth": _Count,
    "answerable.depth": _Count,
    "answerable.min_answer_chars": _NonNegative,
    "answerable.required": list[str],
    "score.splits": list[str],
    "score.limit": _CountOrNull,
    "score.depth": _CountOrNull,
    "closed_book.split": str,
    "closed_book.limit": _CountOrNull,
    "sweep.name": Annotated[str, AfterValidator(_check_name)],
    "sweep.split": str,
    "sweep.limit": _CountOrNull,
    "sweep.closed_book_filter": bool,
    "sweep.retry_empty": bool,
    "sweep.record_steps": bool,
    "report.out": str,
    "report.seed": _NonNegative,
    "report.figures": list[Literal["svg", "pdf", "png", "csv"]],
    "power.sizes": list[_Count] | None,
    "power.effects": list[Annotated[float, Gt(0)]],
    "browse.questions": _NonNegative,
    "evaluate_estimator.out": str,
    "evaluate_estimator.dev": str,
    "evaluate_estimator.test": str,
    "evaluate_estimator.k": _Count,
    "evaluate_estimator.sample": _Count,
    "evaluate_estimator.paper": str | None,
    "evaluate_estimator.show": list[str] | None,
    "evaluate_evaluator.out": str,
    "evaluate_evaluator.dev": str,
    "evaluate_evaluator.test": str,
    "evaluate_evaluator.limit": _CountOrNull,
    "evaluate_evaluator.alpha": Annotated[float, Ge(0)],
    "export.out": str,
    "export.split": str,
    "export.format": Literal["trec", "fid", "beir"],
    "export_maps.out": str,
    "export_maps.split": str,
    "search.at": str,
    "rewriting.text": str,
    "thresholds.upper": float,
    "thresholds.lower": float,
    "dry_run": bool,
    "pipeline.goal": Annotated[str, AfterValidator(_check_goal)],
    "question": str | int | None,
    "artifact": str | None,
    "training.split": str,
    "training.seed": _NonNegative,
    "training.mix": dict[str, Any] | None,
    "training.start": _Training | None,
    "training.metrics": list[dict[str, Any]],
    "training.evaluation.split": str,
    "training.evaluation.limit": _CountOrNull,
    "reader.tuned": bool,
    "reader.base": str,
    "reader.program": str,
    "estimator.trained": bool,
    "nli.trained": bool,
    "estimator.base": str,
    "estimator.relevance_scale": Literal["tanh", "none"],
    "strategy.uses_passages": bool,
    "strategy.uses_reader": bool,
    "strategy.engines": list[str],
    "reader.price_factor": _Positive,
    "reader.joint": bool,
    **{f"{group}.{name}": kind for group in ("joint", "generator") for name, kind in _JOINT.items()},
    "facts.out": str,
    "facts.clozes": _Count,
    "tracking.uri": str,
    "tracking.experiment": str,
    "tracking.artifacts": str,
    "tracking.traces": _NonNegative,
    "prices.table": list[dict[str, Any]],
    "report.paper": dict[str, str] | None,
    "seeds": list[int] | None,
    "paths.data": str,
    "paths.models": str,
    "paths.downloads": str,
    "paths.ledger": str,
    "paths.base_ledgers": list[str],
    "shard": str | None,
    "shards.count": _Count,
    "shards.stage": Annotated[str, AfterValidator(_check_sharded)],
    "shards.runner": Literal["local", "slurm", "submitit_local", "prefect", "merge"],
    "shards.wait": bool,
    "shards.gpus": list[_NonNegative],
    "shards.slurm": Annotated[
        dict[str, str | int | float | bool | list[str] | dict[str, str | int]], AfterValidator(_check_slurm_parameters)
    ],
}
"""Types of settings outside components, by their dotted names."""
SUFFIXES: Mapping[str, Any] = {
    "name": str,
    "tuned": bool,
    "base": str,
}
"""Types of settings outside components that occur in several groups, by the last parts of their dotted names."""
_HYDRA_KEYS = ("_target_", "_partial_", "_convert_", "_recursive_")


def check_settings(cfg: DictConfig) -> None:
    """Check every setting of a composed configuration.

    Raises:
        ConfigError: If a value has the wrong type or is out of range. The message says what is expected.

    """
    _check_annotated(cfg, "", SETTINGS)
    for group in cfg:
        if group in ("grid", "hydra"):
            continue
        for key, node in iter_mappings(cfg._get_node(group), str(group)):
            if "_target_" in node:
                check_component(key, node)
            elif key.endswith(".asset"):
                _check_parameters(key, node, Asset)
            else:
                _check_annotated(node, f"{key}.", SUFFIXES)


def _check_annotated(node: DictConfig, prefix: str, annotations: Mapping[str, Any]) -> None:
    """Check those settings of a mapping that have an annotation. The annotations are given by dotted name."""
    for name, annotation in annotations.items():
        value = OmegaConf.select(node, name, default=OmegaConf)
        if value is not OmegaConf:
            plain = OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
            _check_value(f"{prefix}{name}", plain, annotation)


def check_component(key: str, node: DictConfig) -> None:
    """Check the settings of a component against the annotations of its class.

    Args:
        key: Dotted name of the component, for messages.
        node: Settings of the component.

    Raises:
        ConfigError: If there is no such class or setting, or if a value has the wrong type or is out of range.

    """
    plain: Any = OmegaConf.to_container(node, resolve=True)
    try:
        component = get_class(plain["_target_"])
    except Exception as error:
        raise ConfigError(f"{key}._target_={plain['_target_']!r}: there is no such class ({error}).") from error
    _check_parameters(key, node, component)


def _check_parameters(key: str, node: DictConfig, component: type) -> None:
    """Check settings against the annotations of the class that they are parameters of."""
    plain: Any = OmegaConf.to_container(node, resolve=True)
    annotations = read_annotations(component)
    for name, value in plain.items():
        if name in _HYDRA_KEYS:
            continue
        if name not in annotations:
            raise ConfigError(f"{key}.{name}: {component.__name__} has no such setting." + suggest_name(name, annotations))
        if not _contains_component(value):
            _check_value(f"{key}.{name}", value, annotations[name])


def list_component_settings(cfg: DictConfig, key: str) -> list[str]:
    """Return the dotted names of all settings of the component that has a setting, even those that are left at their defaults.

    Args:
        cfg: Composed configuration.
        key: Dotted name of a setting, which may not exist.

    """
    parent, names = _find_component(cfg, key)
    return [f"{parent}.{name}" for name in names]


def is_component_setting(cfg: DictConfig, key: str) -> bool:
    """Return whether a key names a setting of a component, or an entry of a mapping among them, even one without a value."""
    parent, annotations = _find_component(cfg, key)
    name, _, entry = key.removeprefix(f"{parent}.").partition(".")
    if not entry:
        return name in annotations
    kinds = (annotations.get(name), *get_args(annotations.get(name)))
    return any(get_origin(kind) in (dict, Mapping) for kind in kinds)


def _find_component(cfg: DictConfig, key: str) -> tuple[str, dict[str, Any]]:
    """Return the dotted name of the innermost component around a setting, and the annotations of its settings, or none."""
    parent = key.rpartition(".")[0]
    while parent:
        node = OmegaConf.select(cfg, parent, default=None)
        if isinstance(node, DictConfig) and "_target_" in node:
            try:
                component = get_class(str(node["_target_"]))
                hidden = {field.name for field in fields(component) if not field.repr} if is_dataclass(component) else set()
                return parent, {name: kind for name, kind in read_annotations(component).items() if name not in hidden}
            except Exception:
                break  # `check_component` reports a class that does not exist
        parent = parent.rpartition(".")[0]
    return "", {}


def _contains_component(value: Any) -> bool:
    if isinstance(value, dict):
        return "_target_" in value or any(_contains_component(inner) for inner in value.values())
    return isinstance(value, list) and any(_contains_component(inner) for inner in value)


def _check_value(key: str, value: Any, annotation: Any) -> None:
    """Raise a ConfigError if a value does not match its annotation; an annotation of None accepts any finite value."""
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
        raise ConfigError(f"{key}={value!r}: expected {_describe_expected(annotation, error)}.") from None


@cache
def _build_adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation, config=ConfigDict(strict=True))


def _describe_expected(annotation: Any, error: ValidationError) -> str:
    """Describe the values that an annotation allows."""
    words = [option for option in (annotation, *get_args(annotation)) if getattr(option, "__origin__", None) is Literal]
    if words:
        return "one of " + ", ".join(str(word) for option in words for word in get_args(option))
    messages = [str(part["msg"]).removeprefix("Input should be ").removeprefix("Value error, ") for part in error.errors()]
    return "; or ".join(dict.fromkeys(messages))
