"""Typed and checked settings of one job or cell: all that the code behind the composition reads.

`Settings` has a section for each group and each top-level key of conf/config.yaml, whose comments
say what they mean.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import PrivateAttr, ValidationError

from flows.settings.components import (
    NOTHING,
    Component,
    MaybeComponent,
    check_component,
    check_parameters,
    describe_expected,
    iter_mappings,
)
from flows.settings.pages import (
    CalibrateJudge,
    EvaluateEstimator,
    EvaluateEvaluator,
    Export,
    ExportMaps,
    Power,
    Report,
    Watch,
)
from flows.settings.sections import (
    Answerable,
    ClosedBook,
    ContextProcessing,
    Corpus,
    Count,
    Dataset,
    Distractors,
    Encoder,
    Estimator,
    NonNegative,
    Paths,
    Pipeline,
    Placement,
    Prices,
    Rank,
    Reader,
    Retriever,
    Rewriting,
    Score,
    Search,
    Section,
    Shards,
    Strategy,
    Sweep,
    Thresholds,
    Tracking,
)
from flows.settings.trainings import Facts, Joint, Training
from winnow.contexts.build import RankBy
from winnow.contexts.weighting import ContextWeighting
from winnow.downloads import Asset
from winnow.errors import ConfigError, suggest_name
from winnow.metrics.base import Metric
from winnow.metrics.breakdowns import Breakdown
from winnow.records import Decoding
from winnow.strategies.corrective.evaluators import Evaluator
from winnow.strategies.prompt import Prompt


class Settings(Section):
    """All settings of one job or one cell."""

    k: NonNegative
    rank_by: RankBy
    weighting: Component[ContextWeighting]
    depth: Count
    rank: Rank
    score: Score
    closed_book: ClosedBook
    sweep: Sweep
    seeds: list[int] | None
    grid: Any = None
    report: Report
    power: Power
    watch: Watch
    calibrate_judge: CalibrateJudge
    evaluate_estimator: EvaluateEstimator
    evaluate_evaluator: EvaluateEvaluator
    export_maps: ExportMaps
    export: Export
    shard: str | None
    shards: Shards
    pipeline: Pipeline
    dry_run: bool
    question: str | int | None
    artifact: str | None
    paths: Paths
    corpus: Corpus
    dataset: Dataset
    encoder: Encoder
    retriever: Retriever
    answerable: Answerable
    estimator: Estimator
    reader: Reader
    search: Search
    prices: Prices
    prompt: Component[Prompt]
    decoding: Component[Decoding]
    thresholds: Thresholds
    rewriting: Rewriting
    strategy: Strategy
    placement: Placement
    distractors: Distractors
    context: ContextProcessing
    training: Training
    method: Component[Any]
    joint: Joint
    facts: Facts
    metric: dict[str, Component[Metric]]
    evaluator: dict[str, Component[Evaluator]]
    tracking: Tracking
    rewriter: Reader | None = None
    reranker: Reader | None = None
    judge: Reader | None = None
    verifier: Reader | None = None
    nli: Estimator | None = None
    generator: Joint | None = None
    breakdown: MaybeComponent[Breakdown] = NOTHING
    _words: Sequence[str] = PrivateAttr(default=())
    _list_cells: "Callable[[], list[Settings]]" = PrivateAttr()
    _source: Any = PrivateAttr(default=None)

    @classmethod
    def load(
        cls,
        plain: dict[str, Any],
        *,
        words: Sequence[str] = (),
        list_cells: "Callable[[], list[Settings]] | None" = None,
        source: Any = None,
    ) -> "Settings":
        """Check plain settings, and return them typed.

        Args:
            plain: Settings by name, without references.
            words: Words of the command line with which they were composed.
            list_cells: Function that returns the cells of the grid; without one, the settings are
                those of one cell.
            source: Settings with references of which `plain` was made, for
                `flows.settings.door.reopen`.

        Raises:
            ConfigError: If a setting is unknown, is missing, has the wrong type or is out of range.
        """
        try:
            settings = cls.model_validate(plain)
        except ValidationError as error:
            raise ConfigError(_describe_error(plain, error)) from None
        for name, component in settings.iter_components():
            check_component(name, component, component.interface)
        for name, node in iter_mappings(plain):
            if name.endswith(".asset"):
                check_parameters(name, node, Asset)
        settings._words = tuple(words)
        settings._list_cells = list_cells or (lambda: [settings])
        settings._source = source
        return settings

    @property
    def words(self) -> Sequence[str]:
        """Return the words of the command line with which the settings were composed."""
        return self._words

    @property
    def source(self) -> Any:
        """Return the unresolved settings from which these were made, or None for a cell."""
        return self._source

    @cached_property
    def cells(self) -> "list[Settings]":
        """The settings of each cell of the grid, for each training seed."""
        return self._list_cells()

    @property
    def roles(self) -> list[str]:
        """The roles that the plan of a cell asks, for its context processor and its strategy."""
        return list(dict.fromkeys([*self.strategy.engines, *self.context.engines]))

    def get_model(self, role: str) -> Reader | None:
        """Return the model of a role that has one of its own, such as "judge"."""
        model: Reader | None = getattr(self, role)
        return model

    def replace(self, **changed: Any) -> "Settings":
        """Return the settings of one cell with other sections or values."""
        plain = {
            name: value.plain if isinstance(value, Section | Component) else value
            for name, value in changed.items()
        }
        return Settings.load({**self.plain, **plain}, words=self.words)


def _describe_error(plain: Mapping[str, Any], error: ValidationError) -> str:
    """Return the message for the first wrong setting: its name, its value and what is expected."""
    errors = [(_find_field(part["loc"]), part) for part in error.errors()]
    if missing_names := [
        names[0] for names, part in errors if part["type"] == "missing" and len(names) == 1
    ]:
        if missing_names == ["metric"]:
            return "metric: a table needs at least one metric, such as 'metric=[em]'."
        return (
            f"The settings lack {', '.join(missing_names)}. Remove the override that leaves them "
            "out, "
            "choose an option of each (`--help` lists them), or write params.yaml again with "
            "`python -m flows.compose`."
        )
    names, first = errors[0]
    key, value = ".".join(names), plain.get(names[0])
    inner = first["loc"][len(names) :]
    if inner and first["type"] in ("missing", "extra_forbidden"):
        what = "lacks" if first["type"] == "missing" else "has no setting"
        return f"{key}: the entry {'.'.join(map(str, inner[:-1]))} {what} {inner[-1]!r}."
    for name in names[1:-1]:
        value = value[name] if value is not None else None
    if first["type"] == "missing":
        option_name = value.get("name", "unnamed") if value else "unnamed"
        return (
            f"conf/{names[0]}/ ({option_name}): the YAML lacks {names[-1]}. Add it, as in the "
            "other "
            "files there."
        )
    if first["type"] == "extra_forbidden":
        return f"There is no setting {key!r}." + suggest_name(
            names[-1], _find_section(names[:-1]).model_fields
        )
    if names == ["metric"] and inner:
        name = str(inner[0])
        return (
            f"conf/metric/: {name!r} is not a metric. The first line of a metric's YAML is `# "
            f"@package metric.<name>`; received {plain['metric'][name]!r}."
        )
    value = value[names[-1]] if len(names) > 1 and value is not None else value
    return (
        f"{key}={value!r}: expected "
        f"{describe_expected([part for other, part in errors if other == names])}."
    )


def _find_field(location: Sequence[str | int]) -> list[str]:
    """Return the part of an error's location that names a setting, without values or types."""
    names: list[str] = []
    model: type[Section] | None = Settings
    for part in map(str, location):
        names.append(part)
        model = (
            _find_inner_section(model, part)
            if model is not None and part in model.model_fields
            else None
        )
        if model is None:
            break
    return names


def _find_section(names: Sequence[str]) -> type[Section]:
    model: type[Section] = Settings
    for name in names:
        model = _find_inner_section(model, name) or model
    return model


def _find_inner_section(model: type[Section], name: str) -> type[Section] | None:
    """Return the class of a field that is a section, or None for any other field."""
    annotation: Any = model.model_fields[name].annotation
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return next(
        (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Section)), None
    )
