"""Sections of the settings for reader and joint trainings, and for a training's synthetic world."""

from typing import Annotated, Any, Literal, Self

from annotated_types import MinLen
from pydantic import model_validator

from flows.settings.components import NOTHING, Component, MaybeComponent
from flows.settings.sections import Count, CountOrNull, NonNegative, Reader, Retriever, Section
from winnow import protocols
from winnow.metrics.base import MeanMetric
from winnow.records import Decoding
from winnow.strategies.prompt import Prompt
from winnow.synthetic.facts import FactsSettings
from winnow.synthetic.scratch_t5 import ScratchT5
from winnow.training.citing import CitationPrompts
from winnow.training.examples import ExampleMix
from winnow.training.generators import Seq2SeqGenerator
from winnow.training.method import Method
from winnow.training.pair_selection import PairSelection
from winnow.training.settings import LoopSettings, SftSettings


class Teacher(Section):
    """A model whose replies train another one."""

    reader: Reader
    decoding: Component[Decoding]


class JointTeacher(Teacher):
    """A model whose replies or likelihoods train an estimator, with a prompt of its own."""

    prompt: MaybeComponent[Prompt] = NOTHING


class HeldOut(Section):
    """The questions by which a training is evaluated."""

    split: str
    limit: CountOrNull


class Training(Section):
    """A training of a reader on replies or, with `method`, on rewards; none without `mix`."""

    name: str
    mix: MaybeComponent[ExampleMix | CitationPrompts]
    start: "Training | None"
    teacher: Teacher | None
    retriever: Component[protocols.Retriever]
    split: str = ""
    seed: NonNegative = 0
    settings: MaybeComponent[SftSettings | LoopSettings] = NOTHING
    evaluation: HeldOut = HeldOut(split="", limit=None)
    rankings: Retriever | None = None
    method: MaybeComponent[Any] = NOTHING
    reward: MaybeComponent[MeanMetric] = NOTHING
    metrics: list[Component[MeanMetric]] = []  # noqa: RUF012 (pydantic copies it)
    decoding: MaybeComponent[Decoding] = NOTHING

    @model_validator(mode="after")
    def _check_completeness(self) -> Self:
        required_names = ["split", "seed", "settings", "evaluation"] if self.mix else []
        required_names += ["reward", "decoding"] if self.method else []
        if missing_names := [name for name in required_names if name not in self.model_fields_set]:
            raise ValueError(f"also {', '.join(missing_names)}, which a training needs")
        return self


class JointData(Section):
    """The questions and contexts of a joint training; null means all."""

    split: str
    questions: CountOrNull
    contexts: CountOrNull
    dev: str
    dev_questions: CountOrNull
    dev_contexts: CountOrNull
    pairs: MaybeComponent[PairSelection] = NOTHING


class Joint(Section):
    """A training of an estimator, a generator or both."""

    name: str
    trainable: Annotated[list[Literal["estimator", "generator"]], MinLen(1)]
    teacher: JointTeacher | None
    method: Component[Method[Any]]
    data: JointData
    settings: Component[LoopSettings]
    generator: MaybeComponent[Seq2SeqGenerator] = NOTHING


class Facts(Section):
    """A synthetic world of facts."""

    out: str
    clozes: Count
    world: Component[FactsSettings]
    size: Component[ScratchT5]
    warm_up: Component[LoopSettings]
