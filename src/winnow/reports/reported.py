"""What papers report: values, differences and numbers of questions (papers/<paper>.yaml, each value with its source)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from winnow.errors import ConfigError, nearest
from winnow.metrics.intervals import UNDEFINED
from winnow.sweeps.labels import CellLabels

_SELECTORS = ("strategy", "k", "gold", "samples", "rank_by", "weight_by")


@dataclass(frozen=True, slots=True)
class ReportedValue:
    """A value that a paper reports, in the unit of the metric (percent for shares).

    Attributes:
        metric: Name of the metric.
        low: The value, the lower end if the paper gives a range, or NaN if it prints a dash.
        high: The upper end of the range; equal to `low` for a single value.
        where: Labels of the cells that the value belongs to.
        note: What the paper says about the value.

    """

    metric: str
    low: float
    high: float
    where: Mapping[str, Any]
    note: str = ""

    def format(self) -> str:
        """Format the value or range, or return an en dash for a dash."""
        if math.isnan(self.low):
            return UNDEFINED
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True)
class ReportedDifference:
    """A difference between two cells that a paper reports.

    Attributes:
        metric: Name of the metric.
        of: Labels of the first cell.
        less: Labels of the cell that is subtracted from the first.
        value: The difference, or None if the paper reports only its sign.
        sign: "+" or "-" if the paper reports only the sign, else empty.
        note: What the paper says about the difference.

    """

    metric: str
    of: Mapping[str, Any]
    less: Mapping[str, Any]
    value: float | None = None
    sign: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class PaperPart:
    """A table or figure of a paper, for one of its data sets and models.

    Attributes:
        title: Title of the table or figure.
        source: The paper and the part, for the title of our table.
        at: Labels of the part's cells, unless a value states others.
        metrics: Names of the metrics that the part reports.
        reported: Values of the part.
        differences: Differences between its cells that the paper reports.
        others: Results of other systems, by their name.
        questions: Number of questions before and after the paper's closed-book filter, or empty if not reported.
        gold_only: Whether the part covers only questions with a gold passage.

    """

    title: str
    source: str
    at: Mapping[str, Any]
    metrics: Sequence[str]
    reported: Sequence[ReportedValue]
    differences: Sequence[ReportedDifference]
    others: Mapping[str, float]
    questions: Sequence[int]
    gold_only: bool


def load(paper: str, part: str, dataset: str, model: str) -> PaperPart:
    """Load a table or figure from papers/<paper>.yaml.

    Raises:
        ConfigError: If there is no such paper, part, data set or model.

    """
    file = _lookup("paper", paper, {path.name.removesuffix(".yaml"): path for path in _paper_files()})
    body = yaml.safe_load(file.read_text(encoding="utf-8"))
    entry = _lookup(
        "part", part, {key: value for key, value in body.items() if isinstance(value, Mapping) and "metrics" in value}
    )
    at = entry["at"]
    reported = [_parse_value(row, at) for row in entry.get("reported", ())]
    source = f"{body['title']}, {entry['title']}"
    if "values" in entry:
        rows = _lookup("model", model, _lookup("dataset", dataset, entry["values"]))
        source += f" ({dataset}, {model})"
        reported += [
            _parse_value({"metric": metric, "value": math.nan if value is None else value, "strategy": strategy}, at)
            for strategy, values in rows.items()
            for metric, value in zip(entry["metrics"], values, strict=True)
        ]
    elif "cells" in entry:
        source += f" ({dataset})"
    reported += [
        _parse_value({"metric": row.get("metric", "em"), "value": row[dataset], **row["where"]}, at)
        for row in entry.get("cells", ())
        if dataset in row
    ]
    others = {system: values[dataset] for system, values in entry.get("others", {}).items() if dataset in values}
    differences = [_parse_difference(row, dataset) for row in entry.get("differences", ()) if _is_reported(row, dataset)]
    differences += _differences_of_values(entry, rows) if "values" in entry else []
    questions, gold_only = body.get("questions", {}).get(dataset, ()), bool(entry.get("gold_only"))
    return PaperPart(entry["title"], source, at, entry["metrics"], reported, differences, others, questions, gold_only)


def reported_questions(paper: str, dataset: str) -> Mapping[str, int]:
    """Return the numbers of questions by split that a paper reports for a data set, or nothing if it reports none."""
    file = _lookup("paper", paper, {path.name.removesuffix(".yaml"): path for path in _paper_files()})
    splits: Mapping[str, int] = yaml.safe_load(file.read_text(encoding="utf-8")).get("splits", {}).get(dataset, {})
    return splits


def _paper_files() -> list[Any]:
    return [path for path in (files("winnow.reports") / "papers").iterdir() if path.name.endswith(".yaml")]


def _lookup(setting: str, name: str, entries: Mapping[str, Any]) -> Any:
    if name not in entries:
        raise ConfigError(f"report.paper.{setting}={name!r}: there are {', '.join(entries)}." + nearest(name, entries))
    return entries[name]


def _differences_of_values(entry: Mapping[str, Any], rows: Mapping[str, Sequence[float | None]]) -> list[ReportedDifference]:
    """Return the difference of each strategy of a table from the table's first, in the first metric."""
    (first, baseline), *others = ((strategy, values[0]) for strategy, values in rows.items())
    return [
        ReportedDifference(
            entry["metrics"][0],
            {"strategy": strategy},
            {"strategy": first},
            round(value - baseline, 1),
            note="of the table's values",
        )
        for strategy, value in others
        if value is not None and baseline is not None and value != baseline
    ]


def _is_reported(row: Mapping[str, Any], dataset: str) -> bool:
    """Return whether a difference is reported for a data set; one without values by data set is."""
    value = row.get("value")
    return not isinstance(value, Mapping) or dataset in value


def _parse_difference(row: Mapping[str, Any], dataset: str) -> ReportedDifference:
    """Parse a difference, whose value may be given for each data set."""
    value = row.get("value")
    if not isinstance(value, Mapping):
        return ReportedDifference(**row)
    others = {key: entry for key, entry in row.items() if key != "value"}
    return ReportedDifference(**others, value=value[dataset])


def _parse_value(entry: Mapping[str, Any], at: Mapping[str, Any]) -> ReportedValue:
    where = {key: entry[key] for key in _SELECTORS if key in entry}
    low, high = entry.get("value", entry.get("low")), entry.get("value", entry.get("high"))
    assert low is not None
    assert high is not None
    return ReportedValue(entry["metric"], low, high, {**at, **where}, entry.get("note", ""))


def matches(labels: CellLabels, where: Mapping[str, Any]) -> bool:
    """Return whether a cell has the labels that a value or difference belongs to."""
    return all(getattr(labels, name) == value for name, value in where.items())
