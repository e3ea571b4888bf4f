"""Sections of the settings, one class per group and key of conf/config.yaml with settings below it.

A class that a `_target_` names is a `Component` of the interface that it implements. Unknown names,
wrong types and values out of range are refused.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Self

from annotated_types import Ge
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    PositiveFloat,
    PrivateAttr,
    model_validator,
)

from flows.settings.components import NOTHING, Component, MaybeComponent
from winnow import protocols
from winnow.contexts.distractors import Distractors as DistractorRule
from winnow.contexts.placed import PlacementRule
from winnow.datasets.split import Split
from winnow.records import Decoding
from winnow.searchers.damage import SearchDamage
from winnow.strategies.prompt import Prompt
from winnow.sweeps.searches import SearchRules

Count = Annotated[int, Ge(1)]
CountOrNull = Count | None
NonNegative = Annotated[int, Ge(0)]
NonNegativeNumber = Annotated[float, Ge(0)]


class Section(BaseModel):
    """Settings below one name, with typed attributes and, as `plain`, the settings as composed."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)
    _plain: dict[str, Any] = PrivateAttr()

    @model_validator(mode="wrap")
    @classmethod
    def _keep_plain(cls, value: Any, handler: Callable[[Any], Self]) -> Self:
        section = handler(value)
        if isinstance(value, dict):
            section._plain = value
        return section

    @property
    def plain(self) -> dict[str, Any]:
        """Return the settings as plain values, without the defaults that were left out."""
        return self._plain

    def iter_components(self, name: str = "") -> Iterator[tuple[str, Component[Any]]]:
        """Yield the dotted name and the settings of each component of the section and of those in
        it, without the components inside components.
        """
        for field, value in self:
            yield from _iter_components(value, f"{name}.{field}" if name else field)


def _iter_components(value: Any, name: str) -> Iterator[tuple[str, Component[Any]]]:
    if isinstance(value, Component):
        if value:
            yield name, value
    elif isinstance(value, Section):
        yield from value.iter_components(name)
    elif isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _iter_components(part, f"{name}.{key}")


def _check_slurm_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Raise ValueError if a parameter other than slurm_additional_parameters is a mapping."""
    for name, value in parameters.items():
        if isinstance(value, dict) and name != "slurm_additional_parameters":
            raise ValueError(f"a text, number or list for {name}")
    return parameters


def _check_name(name: str) -> str:
    """Raise ValueError unless MLflow, Prefect, DVC and file systems accept a "/"-separated name."""
    parts = name.split("/")
    if len(name.encode()) > 200 or any(
        part.strip() != part or part in ("", ".", "..") for part in parts
    ):
        raise ValueError(
            "a name of 1 to 200 bytes, such as mine or papers/mine, without spaces around its parts"
        )
    if not name.isprintable() or set(name) & set('\\:*?"<>|'):
        raise ValueError('a name without control characters and without any of \\ : * ? " < > |')
    return name


_Asset = dict[str, Any]
"""Settings of `winnow.downloads.Asset`, by whose annotations they are checked."""


class Source(Section):
    """One of the files from which a corpus or a data set is joined."""

    asset: _Asset


class _Parsed(Section):
    name: str
    asset: _Asset | None = None
    sources: dict[str, Source] = {}


class Corpus(_Parsed):
    """A corpus and how it is read."""

    parser: Component[protocols.CorpusParser]


class Dataset(_Parsed):
    """Questions, which are read as a corpus is, and how they are split."""

    parser: Component[protocols.DatasetParser]
    split: Component[Split]


class Encoder(Section):
    """An encoder of texts."""

    name: str
    model: Component[Any]
    asset: _Asset | None = None


class Retriever(Section):
    """A retriever, and the plan, if any, by which models change its rankings, with its roles."""

    name: str
    engine: Component[protocols.Retriever]
    plan: MaybeComponent[protocols.RetrievalPlan] = NOTHING
    engines: list[str] = []


class Answerable(Section):
    """Which questions count as answerable, and which splits keep only these."""

    retriever: Component[protocols.Retriever]
    depth: Count
    min_answer_chars: NonNegative
    required: list[str]


class Estimator(Section):
    """A relevance estimator; one without `base` has no weights of its own."""

    name: str
    engine: Component[protocols.Estimator]
    trained: bool = False
    base: str | None = None
    relevance_scale: Literal["tanh", "none"] = "tanh"
    asset: _Asset | None = None


class Reader(Section):
    """A language model in any role; `trained_on` is its fine-tuning prompt if that is different."""

    name: str
    tuned: bool
    base: str
    engine: Component[protocols.Engine]
    joint: bool = False
    price_factor: PositiveFloat = 1.0
    program: str = ""
    asset: _Asset | None = None
    trained_on: Component[Prompt] | None = None

    @model_validator(mode="after")
    def _check_training(self) -> Self:
        if self.trained_on is not None and not self.tuned:
            raise ValueError("also tuned=true, without which trained_on has no effect")
        return self


class Search(Section):
    """The engine of the role "search", and the corpus that it searches if that is another one."""

    name: str
    engine: Component[protocols.Engine]
    at: str = ""
    damage: MaybeComponent[SearchDamage] = NOTHING
    corpus: Corpus | None = None
    retriever: Retriever | None = None
    rules: Component[SearchRules]


class PriceRow(Section):
    """Dollars for a million tokens of a model."""

    model: str
    input: NonNegativeNumber
    output: NonNegativeNumber


class Prices(Section):
    """Prices of models."""

    table: list[PriceRow]


class Thresholds(Section):
    """Thresholds of CRAG's actions."""

    upper: float
    lower: float


class Rewriting(Section):
    """Prompt by which CRAG rewrites a question into a query."""

    text: str


class Strategy(Section):
    """A strategy, the roles that it asks, and what it needs."""

    name: str
    plan: Component[protocols.Strategy]
    engines: list[str] = ["reader"]
    uses_passages: bool = True
    uses_reader: bool = True


class Placement(Section):
    """Which contexts a prompt contains, and in which order."""

    name: str
    rule: Component[PlacementRule]


class Distractors(Section):
    """The passages of a prompt next to the gold passage."""

    name: str
    rule: Component[DistractorRule]


class ContextProcessing(Section):
    """What changes the placed contexts before a strategy shows them, and the roles that it asks."""

    name: str
    engines: list[str] = []
    plan: MaybeComponent[protocols.ContextProcessor] = NOTHING


class Tracking(Section):
    """Where MLflow keeps runs."""

    uri: str
    experiment: str
    artifacts: str
    traces: NonNegative


class Rank(Section):
    """Which questions the plan of a retriever ranks passages for."""

    splits: list[str]
    limit: CountOrNull


class Score(Rank):
    """Of which questions the estimator scores contexts, and how many of each."""

    depth: CountOrNull


class ClosedBook(Section):
    """Which questions are asked without passages."""

    split: str
    limit: CountOrNull
    decoding: Component[Decoding]
    reader: Reader | None = None


class Sweep(Section):
    """Which questions a sweep answers."""

    name: Annotated[str, AfterValidator(_check_name)]
    split: str
    limit: CountOrNull
    closed_book_filter: bool
    closed_book_keeps: Literal["unknown", "known"]
    retry_empty: bool
    record_steps: bool


class Shards(Section):
    """How a stage is divided, and where its shards run."""

    count: Count
    stage: str
    runner: Literal["local", "slurm", "submitit_local", "prefect", "merge"]
    wait: bool
    gpus: list[NonNegative]
    slurm: Annotated[
        dict[str, str | int | float | bool | list[str] | dict[str, str | int]],
        AfterValidator(_check_slurm_parameters),
    ]


class Pipeline(Section):
    """What `flows.pipeline` runs."""

    goal: str


class Paths(Section):
    """Folders and files of a project."""

    data: str
    models: str
    downloads: str
    ledger: str
    base_ledgers: list[str]
