"""Values, differences and numbers of questions that papers report.

They are stored in papers/<paper>.yaml, where a part of a paper is one of its tables or figures.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from winnow.errors import ConfigError, suggest_name
from winnow.metrics.intervals import UNDEFINED
from winnow.sweeps.labels import CellLabels

_LABELS = ("strategy", "k", "gold", "samples", "rank_by", "weight_by", "context")
"""Labels of cells that an entry of `reported` or `values` in the YAML file may state."""


@dataclass(frozen=True, slots=True)
class ReportedValue:
    """A value that a paper reports, in the unit of the metric (percent for shares).

    Attributes:
        metric: Name of the metric.
        low: The value, or the lower end if the paper gives a range, or NaN if it prints a dash.
        high: Upper end of the range. It is equal to `low` if the paper gives a single value.
        where: Labels of the cells to which the value belongs, such as {"strategy": "post_fusion",
            "k": 5}.
        note: Statement of the paper on the value.
    """

    metric: str
    low: float
    high: float
    where: Mapping[str, Any]
    note: str = ""

    def format(self) -> str:
        """Format the value or the range, or return an en dash if the paper prints a dash."""
        if math.isnan(self.low):
            return UNDEFINED
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True)
class ReportedDifference:
    """A difference between two cells that a paper reports.

    Attributes:
        metric: Name of the metric.
        of: Labels of the first cell.
        less: Labels of the second cell, whose value is subtracted from the first one's.
        value: The difference, or None if the paper reports only its sign.
        sign: "+" or "-" if the paper reports only the sign, else empty.
        note: Statement of the paper on the difference.
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
        source: Titles of the paper and of its table or figure, for the title of our table.
        at: Labels that all cells of the table or figure share, unless a value states others.
        metrics: Names of the metrics that the table or figure reports.
        reported: Values of the table or figure.
        differences: Differences between cells of the table or figure that the paper reports.
        other_systems: First metrics of other systems and models, by their names.
        questions: Number of questions before and after the paper's closed-book filter, or empty if
            it is not reported.
        gold_only: Whether the table or figure covers only questions with a gold passage.
        flags: Contradictions of the paper in these values, for a note above the table.
        is_by_model: Whether the values belong to one model, so that cells that differ in their
            readers have no counterpart.
    """

    title: str
    source: str
    at: Mapping[str, Any]
    metrics: Sequence[str]
    reported: Sequence[ReportedValue]
    differences: Sequence[ReportedDifference]
    other_systems: Mapping[str, Sequence[float]]
    questions: Sequence[int]
    gold_only: bool
    flags: Sequence[str] = ()
    is_by_model: bool = False


def load_paper_part(paper: str, part: str, dataset: str, model: str) -> PaperPart:
    """Load a table or figure from papers/<paper>.yaml.

    Args:
        paper: Name of the YAML file without its extension.
        part: Key of the table or figure in the file, such as "table1".
        dataset: Name of a data set of the table or figure.
        model: Name of a model of the table or figure, or "" for a reader that is none of them, next
            to which no model's values stand. It is ignored if the values are not given by model.

    Raises:
        ConfigError: If there is no such paper, table or figure, data set or model.
    """
    body = _read_paper(paper)
    parts = {
        key: value
        for key, value in body.items()
        if isinstance(value, Mapping) and "metrics" in value
    }
    entry = _look_up("part", part, parts)
    metrics = entry["metrics"]
    if isinstance(metrics, Mapping):
        metrics = _look_up("dataset", dataset, metrics)
    at = entry["at"]
    reported_values = [_parse_value(row, at) for row in entry.get("reported", ())]
    source = f"{body['title']}, {entry['title']}"
    if "values" in entry and model:
        rows = _look_up("model", model, _look_up("dataset", dataset, entry["values"]))
        source += f" ({dataset}, {model})"
        reported_values += [
            _parse_value(
                {
                    "metric": metric,
                    "value": math.nan if value is None else value,
                    "strategy": strategy,
                },
                at,
            )
            for strategy, values in rows.items()
            for metric, value in zip(metrics, values, strict=True)
        ]
    elif "cells" in entry:
        source += f" ({dataset})"
    reported_values += [
        _parse_value(
            {
                "metric": row.get("metric", "em"),
                "value": row[dataset],
                "note": row.get("note", ""),
                **row["where"],
            },
            at,
        )
        for row in entry.get("cells", ())
        if dataset in row
    ]
    others = {
        system: row[dataset]
        for system, row in entry.get("others", {}).items()
        if row.get(dataset) is not None
    }
    others = {
        system: value if isinstance(value, list) else [value] for system, value in others.items()
    }
    differences = [
        _parse_difference(row, dataset)
        for row in entry.get("differences", ())
        if _is_reported(row, dataset, model)
    ]
    stated = [(difference.metric, difference.of, difference.less) for difference in differences]
    computed_differences = (
        _compute_differences(metrics[0], rows) if "values" in entry and model else []
    )
    differences += [
        one for one in computed_differences if (one.metric, one.of, one.less) not in stated
    ]
    questions = body.get("questions", {}).get(dataset, ())
    gold_only = bool(entry.get("gold_only"))
    flags = entry.get("flags", ())
    flags = flags.get(dataset, ()) if isinstance(flags, Mapping) else flags
    return PaperPart(
        entry["title"],
        source,
        at,
        metrics,
        reported_values,
        differences,
        others,
        questions,
        gold_only,
        flags,
        "values" in entry,
    )


def load_reported_question_counts(paper: str, dataset: str) -> Mapping[str, int]:
    """Return a paper's question counts by split for a data set, or {} if the paper reports none."""
    splits: Mapping[str, int] = _read_paper(paper).get("splits", {}).get(dataset, {})
    return splits


def _read_paper(paper: str) -> Any:
    """Read papers/<paper>.yaml."""
    paths = [
        path
        for path in (files("winnow.reports") / "papers").iterdir()
        if path.name.endswith(".yaml")
    ]
    path = _look_up("paper", paper, {path.name.removesuffix(".yaml"): path for path in paths})
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _look_up(setting: str, name: str, entries: Mapping[str, Any]) -> Any:
    """Return the entry that a `report.paper` setting names; raise ConfigError if there is none."""
    if name not in entries:
        choices = ", ".join(entries)
        raise ConfigError(
            f"report.paper.{setting}={name!r} is unknown. Choose one of {choices}."
            + suggest_name(name, entries)
        )
    return entries[name]


def _compute_differences(
    metric: str, rows: Mapping[str, Sequence[float | None]]
) -> list[ReportedDifference]:
    """Compute how much each strategy of a table differs in the first metric from the one it varies.

    A strategy "a_without_b" varies "a". The others are compared with the table's first strategy.

    Args:
        metric: Name of the first metric of the table.
        rows: Values of each strategy, in the order of the metrics.
    """
    first, *others = rows
    differences = []
    for strategy in others:
        varied = strategy.partition("_without_")[0]
        other = varied if varied in rows and varied != strategy else first
        value, baseline = rows[strategy][0], rows[other][0]
        if value is not None and baseline is not None and value != baseline:
            difference = round(value - baseline, 1)
            note = "computed from the table's values"
            differences.append(
                ReportedDifference(
                    metric, {"strategy": strategy}, {"strategy": other}, difference, note=note
                )
            )
    return differences


def _is_reported(row: Mapping[str, Any], dataset: str, model: str) -> bool:
    """Return whether a difference is for a data set and model; one that names none is for all."""
    value = row.get("value")
    has_value = not isinstance(value, Mapping) or dataset in value
    return has_value and (row.get("dataset", dataset), row.get("model", model)) == (dataset, model)


def _parse_difference(row: Mapping[str, Any], dataset: str) -> ReportedDifference:
    """Parse a difference. Its value may be given by data set."""
    value = row.get("value")
    other_fields = {
        key: entry for key, entry in row.items() if key not in ("value", "dataset", "model")
    }
    return ReportedDifference(
        **other_fields, value=value[dataset] if isinstance(value, Mapping) else value
    )


def _parse_value(entry: Mapping[str, Any], at: Mapping[str, Any]) -> ReportedValue:
    """Parse a value or a range. The labels that the entry states override those in `at`."""
    where = {name: entry[name] for name in _LABELS if name in entry}
    low, high = entry.get("value", entry.get("low")), entry.get("value", entry.get("high"))
    assert low is not None
    assert high is not None
    return ReportedValue(entry["metric"], low, high, {**at, **where}, entry.get("note", ""))


def find_value(
    reported: Sequence[ReportedValue], metric: str, labels: CellLabels
) -> ReportedValue | None:
    """Return what a paper reports of a metric for a cell, or None if it has no counterpart."""
    return next(
        (value for value in reported if value.metric == metric and has_labels(labels, value.where)),
        None,
    )


def has_labels(labels: CellLabels, where: Mapping[str, Any]) -> bool:
    """Return whether a cell's labels include all in `where`, whose `context` defaults to "none"."""
    return all(
        getattr(labels, name) == value for name, value in {"context": "none", **where}.items()
    )
