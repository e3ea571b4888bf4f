"""Sections of the settings, one class for each group and each key of conf/config.yaml that has
settings below it.

A class that a `_target_` names is a `Component`. Unknown names, wrong types and values out of range
are refused.
"""

from collections.abc import Callable
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

Count = Annotated[int, Ge(1)]
CountOrNull = Count | None
NonNegative = Annotated[int, Ge(0)]
NonNegativeNumber = Annotated[float, Ge(0)]


class Section(BaseModel):
    """Settings below one name. Its attributes are typed, and `plain` has the settings as they were
    composed.
    """

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


def _check_slurm_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Raise ValueError if a parameter other than slurm_additional_parameters is a mapping."""
    for name, value in parameters.items():
        if isinstance(value, dict) and name != "slurm_additional_parameters":
            raise ValueError(f"a text, number or list for {name}")
    return parameters


def _check_name(name: str) -> str:
    """Raise ValueError unless a name is one that MLflow, Prefect, DVC and file systems accept, with
    "/" between its parts.
    """
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
"""Settings of `winnow.assets.Asset`, by whose annotations they are checked."""


class Source(Section):
    """One of the files from which a corpus or a data set is joined."""

    asset: _Asset


class Corpus(Section):
    """A corpus and how it is read."""

    name: str
    parser: Component
    asset: _Asset | None = None
    sources: dict[str, Source] = {}


class Dataset(Corpus):
    """Questions, which are read as a corpus is, and how they are split."""

    split: Component


class Encoder(Section):
    """An encoder of texts."""

    name: str
    model: Component
    asset: _Asset | None = None


class Retriever(Section):
    """A retriever, and the plan by which models change its rankings, if it has one,
    with its roles.
    """

    name: str
    engine: Component
    plan: MaybeComponent = NOTHING
    engines: list[str] = []


class Answerable(Section):
    """Which questions count as answerable, and which splits keep only these."""

    retriever: Component
    depth: Count
    min_answer_chars: NonNegative
    required: list[str]


class Estimator(Section):
    """A relevance estimator; one without `base` has no weights of its own."""

    name: str
    engine: Component
    trained: bool = False
    base: str | None = None
    relevance_scale: Literal["tanh", "none"] = "tanh"
    asset: _Asset | None = None


class Reader(Section):
    """A language model, in whatever role; `trained_on` is the prompt of its fine-tuning if it is
    asked with another.
    """

    name: str
    tuned: bool
    base: str
    engine: Component
    joint: bool = False
    price_factor: PositiveFloat = 1.0
    program: str = ""
    asset: _Asset | None = None
    trained_on: Component | None = None

    @model_validator(mode="after")
    def _check_training(self) -> Self:
        if self.trained_on is not None and not self.tuned:
            raise ValueError("also tuned=true, without which trained_on has no effect")
        return self


class Search(Section):
    """The engine of the role "search", and the corpus that it searches if that is another one."""

    name: str
    engine: Component
    at: str = ""
    damage: MaybeComponent = NOTHING
    corpus: Corpus | None = None
    retriever: Retriever | None = None
    rules: Component


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
    plan: Component
    engines: list[str] = ["reader"]
    uses_passages: bool = True
    uses_reader: bool = True


class Rule(Section):
    """A placement, or distractors."""

    name: str
    rule: Component


class ContextProcessing(Section):
    """What changes the placed contexts before a strategy shows them, and the roles that it asks."""

    name: str
    engines: list[str] = []
    plan: MaybeComponent = NOTHING


class Teacher(Section):
    """A model whose replies or likelihoods train another one."""

    reader: Reader
    decoding: Component
    prompt: MaybeComponent = NOTHING


class HeldOut(Section):
    """The questions by which a training is evaluated."""

    split: str
    limit: CountOrNull


class Training(Section):
    """A training of a reader on replies or, with `method`, on rewards; without `mix`
    there is none.
    """

    name: str
    mix: MaybeComponent
    start: "Training | None"
    teacher: Teacher | None
    retriever: Component
    split: str = ""
    seed: NonNegative = 0
    settings: MaybeComponent = NOTHING
    evaluation: HeldOut = HeldOut(split="", limit=None)
    rankings: Retriever | None = None
    method: MaybeComponent = NOTHING
    reward: MaybeComponent = NOTHING
    metrics: list[Component] = []
    decoding: MaybeComponent = NOTHING

    @model_validator(mode="after")
    def _check_completeness(self) -> Self:
        needed = ["split", "seed", "settings", "evaluation"] if self.mix else []
        needed += ["reward", "decoding"] if self.method else []
        if missing := [name for name in needed if name not in self.model_fields_set]:
            raise ValueError(f"also {', '.join(missing)}, which a training needs")
        return self


class JointData(Section):
    """The questions and contexts of a joint training; null means all."""

    split: str
    questions: CountOrNull
    contexts: CountOrNull
    dev: str
    dev_questions: CountOrNull
    dev_contexts: CountOrNull
    pairs: MaybeComponent = NOTHING


class Joint(Section):
    """A training of an estimator, a generator or both."""

    name: str
    trainable: list[str]
    teacher: Teacher | None
    method: Component
    data: JointData
    settings: Component
    generator: MaybeComponent = NOTHING


class Facts(Section):
    """A synthetic world of facts."""

    out: str
    clozes: Count
    world: Component
    size: Component
    warm_up: Component


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
    decoding: Component
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
