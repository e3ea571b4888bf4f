"""Tables that compare our cells with the values that a paper reports (papers/<paper>.yaml, each value with its source)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from winnow.errors import ConfigError, nearest
from winnow.reports.cells import CellResult, TableView, difference, paired, scale_of

NOT_REPORTED = "not reported"
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
        """Format the value or range, or return "-" for a dash."""
        if math.isnan(self.low):
            return "-"
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
    differences = [ReportedDifference(**row) for row in entry.get("differences", ())]
    questions, gold_only = body.get("questions", {}).get(dataset, ()), bool(entry.get("gold_only"))
    return PaperPart(entry["title"], source, at, entry["metrics"], reported, differences, others, questions, gold_only)


def _paper_files() -> list[Any]:
    return [path for path in (files("winnow.reports") / "papers").iterdir() if path.name.endswith(".yaml")]


def _lookup(setting: str, name: str, entries: Mapping[str, Any]) -> Any:
    if name not in entries:
        raise ConfigError(f"report.paper.{setting}={name!r}: there are {', '.join(entries)}." + nearest(name, entries))
    return entries[name]


def _parse_value(entry: Mapping[str, Any], at: Mapping[str, Any]) -> ReportedValue:
    where = {key: entry[key] for key in _SELECTORS if key in entry}
    low, high = entry.get("value", entry.get("low")), entry.get("value", entry.get("high"))
    assert low is not None
    assert high is not None
    return ReportedValue(entry["metric"], low, high, {**at, **where}, entry.get("note", ""))


def paper_tables(part: PaperPart, cells: Sequence[CellResult], seed: int, filtered: tuple[int, int] | None) -> list[TableView]:
    """Build the tables that compare our values, differences and numbers of questions with those of the paper.

    Args:
        part: Table or figure of the paper.
        cells: Our cells, without the questions that the part leaves out.
        seed: Seed of the bootstrap.
        filtered: Our number of questions before and after the closed-book filter, or None without the filter.

    """
    tables = [_values_table(part, cells, seed)]
    if part.differences:
        tables.append(_differences_table(part, cells, seed))
    if part.questions and filtered:
        rows = [["ours", *map(str, filtered)], ["paper", *map(str, part.questions)]]
        caption = (
            "number of questions before and after removing those that the reader answers without passages (paper: section 4)"
        )
        tables.append(TableView("Closed-book filter", caption, ["", "before", "after"], rows))
    return tables


def _values_table(part: PaperPart, cells: Sequence[CellResult], seed: int) -> TableView:
    rows = []
    for cell in cells:
        labels = cell.labels
        row = [labels.line, str(labels.k), labels.gold, str(labels.samples)]
        for name in part.metrics:
            row += _compare_with_paper(cell, name, part.reported, seed)
        rows.append(row)
    rows += [
        [f"{system} (others' result)", "", "", "", *_other_values("em", value, part.metrics)]
        for system, value in part.others.items()
    ]
    titles = [metric.title if (metric := cells[0].metric(name)) else name for name in part.metrics]
    columns = ["strategy", "k", "gold", "samples"]
    columns += [f"{title} {side}" for title in titles for side in ("ours", "paper", "diff.")]
    notes = "; ".join(dict.fromkeys(value.note for value in part.reported if value.note))
    caption = f"{len(cells[0].samples)} questions; ours with 95 % intervals, on our data and reader. {notes}".strip()
    return TableView(f"Beside the paper: {part.source}", caption, columns, rows)


def _compare_with_paper(cell: CellResult, name: str, reported: Sequence[ReportedValue], seed: int) -> list[str]:
    """Return our value, the paper's, and the difference to the nearest value in the paper's range, as text."""
    metric = cell.metric(name)
    assert metric is not None, name
    ours = cell.interval(name, seed)
    paper = next((value for value in reported if value.metric == name and _matches(cell, value.where)), None)
    ours_text = metric.format(ours)
    if paper is None or not ours.n or math.isnan(paper.low):
        return [ours_text, NOT_REPORTED if paper is None else paper.format(), "-"]
    mean = scale_of(metric) * ours.mean
    return [ours_text, paper.format(), f"{mean - min(max(mean, paper.low), paper.high):+.1f}"]


def _other_values(metric: str, value: float, metrics: Sequence[str]) -> list[str]:
    return [text for name in metrics for text in (("-", f"{value:g}", "-") if name == metric else ("-", "-", "-"))]


def _differences_table(part: PaperPart, cells: Sequence[CellResult], seed: int) -> TableView:
    rows = []
    for reported in part.differences:
        first_cells, second_cells = (
            [cell for cell in cells if _matches(cell, {**part.at, **where})] for where in (reported.of, reported.less)
        )
        pair = next(((first, second) for first in first_cells for second in second_cells if paired(first, second)), None)
        paper = reported.sign or f"{reported.value:+g}"
        metric = cells[0].metric(reported.metric)
        assert metric is not None, reported.metric
        labels = [metric.title, _selector_text(reported.of), _selector_text(reported.less)]
        if pair is None:
            rows.append([*labels, "not run", "-", paper, reported.note])
            continue
        comparison = difference(*pair, reported.metric, seed)
        if comparison is None:
            rows.append([*labels, "undefined", "-", paper, reported.note])
            continue
        rows.append([*labels, comparison.signed(scale_of(metric)), comparison.p_text, paper, reported.note])
    caption = "paired by question: bootstrap intervals, and McNemar's exact test if values are 0 or 1"
    columns = ["metric", "A", "B", "A - B", "p", "paper", "the paper's statement"]
    return TableView("Differences that the paper reports", caption, columns, rows)


def _matches(cell: CellResult, where: Mapping[str, Any]) -> bool:
    return all(getattr(cell.labels, name) == value for name, value in where.items())


def _selector_text(where: Mapping[str, Any]) -> str:
    return ", ".join(str(value) if label == "strategy" else f"{label} {value}" for label, value in where.items())
