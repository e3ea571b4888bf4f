"""Sections of the settings for pages and exports: papers, the report, questions, power and maps."""

from typing import Literal

from pydantic import PositiveFloat

from flows.settings.sections import Count, CountOrNull, NonNegative, NonNegativeNumber, Section


class Paper(Section):
    """A paper's table or figure next to ours."""

    name: str
    dataset: str
    part: str = ""
    model: str = ""


class Report(Section):
    """The pages of a sweep."""

    out: str
    seed: NonNegative
    figures: list[Literal["svg", "pdf", "png", "csv"]]
    cost: str
    questions: NonNegative
    paper: Paper | None


class Watch(Section):
    """The command that watches a sweep."""

    every: PositiveFloat | None


class Power(Section):
    """The page of power."""

    sizes: list[Count] | None
    effects: list[PositiveFloat]


class CalibrateJudge(Section):
    """The comparison of a judge with people."""

    labels: str | None
    sample: Count
    seed: NonNegative


class EvaluateEstimator(Section):
    """The page on an estimator."""

    out: str
    dev: str
    test: str
    k: Count
    sample: Count
    paper: str | None
    show: list[str] | None


class EvaluateEvaluator(Section):
    """The page on CRAG's evaluators."""

    out: str
    dev: str
    test: str
    limit: CountOrNull
    alpha: NonNegativeNumber


class ExportMaps(Section):
    """Maps of mixtures in RAGE's format."""

    out: str
    split: str


class Export(ExportMaps):
    """Rankings in formats of other tools, or a sweep to repeat."""

    format: Literal["trec", "fid", "beir", "replay"]
