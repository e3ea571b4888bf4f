"""Our cells beside the values that a paper reports; those are in papers/<paper>.yaml, each with its source."""

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
    """One value of a paper, in its unit (percent for shares): a point, a range if it gives no more, NaN for a dash."""

    metric: str
    low: float
    high: float
    where: Mapping[str, Any]
    """Which cells it belongs to: strategy, and k, gold, samples, ranking or weights where they matter."""
    note: str = ""

    def format(self) -> str:
        """Return the value as text."""
        if math.isnan(self.low):
            return "-"
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True)
class ReportedDifference:
    """A difference between two cells that a paper reports: a value, or only its sign."""

    metric: str
    of: Mapping[str, Any]
    less: Mapping[str, Any]
    value: float | None = None
    sign: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class PaperPart:
    """A table or figure of a paper, for one of its data sets and models."""

    title: str
    source: str
    at: Mapping[str, Any]
    metrics: Sequence[str]
    reported: Sequence[ReportedValue]
    differences: Sequence[ReportedDifference]
    others: Mapping[str, float]
    questions: Sequence[int]
    gold_only: bool
    """Whether only questions with a gold passage count."""


def load(paper: str, part: str, dataset: str, model: str) -> PaperPart:
    """Read one part of papers/<paper>.yaml; raise ConfigError for names that the file does not have."""
    body = yaml.safe_load(_pick("paper", paper, {p.name[:-5]: p for p in _papers()}).read_text(encoding="utf-8"))
    entry = _pick("part", part, {k: v for k, v in body.items() if isinstance(v, Mapping) and "metrics" in v})
    at = entry["at"]
    reported = [_value(row, at) for row in entry.get("reported", ())]
    source = f"{body['title']}, {entry['title']}"
    if "values" in entry:
        rows = _pick("model", model, _pick("dataset", dataset, entry["values"]))
        source += f" ({dataset}, {model})"
        reported += [
            _value({"metric": metric, "value": math.nan if value is None else value, "strategy": strategy}, at)
            for strategy, values in rows.items()
            for metric, value in zip(entry["metrics"], values, strict=True)
        ]
    elif "cells" in entry:
        source += f" ({dataset})"
    reported += [
        _value({"metric": row.get("metric", "em"), "value": row[dataset], **row["where"]}, at)
        for row in entry.get("cells", ())
        if dataset in row
    ]
    others = {who: values[dataset] for who, values in entry.get("others", {}).items() if dataset in values}
    differences = [ReportedDifference(**row) for row in entry.get("differences", ())]
    questions, gold_only = body.get("questions", {}).get(dataset, ()), bool(entry.get("gold_only"))
    return PaperPart(entry["title"], source, at, entry["metrics"], reported, differences, others, questions, gold_only)


def _papers() -> list[Any]:
    return [file for file in (files("winnow.reports") / "papers").iterdir() if file.name.endswith(".yaml")]


def _pick(what: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise ConfigError(f"report.paper.{what}={name!r}: there are {', '.join(known)}." + nearest(name, known))
    return known[name]


def _value(entry: Mapping[str, Any], at: Mapping[str, Any]) -> ReportedValue:
    where = {key: entry[key] for key in _SELECTORS if key in entry}
    low, high = entry.get("value", entry.get("low")), entry.get("value", entry.get("high"))
    assert low is not None
    assert high is not None
    return ReportedValue(entry["metric"], low, high, {**at, **where}, entry.get("note", ""))


def paper_tables(part: PaperPart, cells: Sequence[CellResult], seed: int, filtered: tuple[int, int] | None) -> list[TableView]:
    """Return our cells beside the paper's values, its differences beside ours, and the question counts of both.

    Args:
        part: what the paper reports.
        cells: ours, without the questions that the part leaves out.
        seed: of the bootstrap.
        filtered: our questions before and after the closed-book filter, if there was one.

    """
    tables = [_values_table(part, cells, seed)]
    if part.differences:
        tables.append(_differences_table(part, cells, seed))
    if part.questions and filtered:
        rows = [["ours", *map(str, filtered)], ["paper", *map(str, part.questions)]]
        caption = "questions left after those that the reader answers without passages (the paper's: section 4)"
        tables.append(TableView("Closed-book filter", caption, ["", "before", "after"], rows))
    return tables


def _values_table(part: PaperPart, cells: Sequence[CellResult], seed: int) -> TableView:
    rows = []
    for cell in cells:
        labels = cell.labels
        row = [labels.line, str(labels.k), labels.gold, str(labels.samples)]
        for name in part.metrics:
            row += _beside(cell, name, part.reported, seed)
        rows.append(row)
    rows += [
        [f"{who} (others' result)", "", "", "", *_other_values("em", value, part.metrics)]
        for who, value in part.others.items()
    ]
    titles = [metric.title if (metric := cells[0].metric(name)) else name for name in part.metrics]
    columns = ["strategy", "k", "gold", "samples"]
    columns += [f"{title} {side}" for title in titles for side in ("ours", "paper", "diff.")]
    notes = "; ".join(dict.fromkeys(value.note for value in part.reported if value.note))
    caption = f"{len(cells[0].samples)} questions; ours with 95 % intervals, on our data and reader. {notes}".strip()
    return TableView(f"Beside the paper: {part.source}", caption, columns, rows)


def _beside(cell: CellResult, name: str, reported: Sequence[ReportedValue], seed: int) -> list[str]:
    """Return our value, the paper's, and the difference to the nearest end of its range."""
    metric = cell.metric(name)
    assert metric is not None, name
    ours = cell.interval(name, seed)
    paper = next((value for value in reported if value.metric == name and _matches(cell, value.where)), None)
    text = metric.format(ours)
    if paper is None or not ours.n or math.isnan(paper.low):
        return [text, NOT_REPORTED if paper is None else paper.format(), "-"]
    value = scale_of(metric) * ours.mean
    return [text, paper.format(), f"{value - min(max(value, paper.low), paper.high):+.1f}"]


def _other_values(metric: str, value: float, metrics: Sequence[str]) -> list[str]:
    return [text for name in metrics for text in (("-", f"{value:g}", "-") if name == metric else ("-", "-", "-"))]


def _differences_table(part: PaperPart, cells: Sequence[CellResult], seed: int) -> TableView:
    rows = []
    for reported in part.differences:
        left, right = (
            [cell for cell in cells if _matches(cell, {**part.at, **side})] for side in (reported.of, reported.less)
        )
        pair = next(((a, b) for a in left for b in right if paired(a, b)), None)
        paper = reported.sign or f"{reported.value:+g}"
        metric = cells[0].metric(reported.metric)
        assert metric is not None, reported.metric
        labels = [metric.title, _selector_text(reported.of), _selector_text(reported.less)]
        if pair is None:
            rows.append([*labels, "not run", "-", paper, reported.note])
            continue
        result = difference(*pair, reported.metric, seed)
        if result is None:
            rows.append([*labels, "undefined", "-", paper, reported.note])
            continue
        rows.append([*labels, result.signed(scale_of(metric)), result.p_text, paper, reported.note])
    caption = "paired by question: bootstrap intervals, and McNemar's exact test where values are 0 or 1"
    return TableView("Differences that the paper reports", caption, ["of", "A", "B", "A - B", "p", "paper", "its words"], rows)


def _matches(cell: CellResult, where: Mapping[str, Any]) -> bool:
    return all(getattr(cell.labels, name) == value for name, value in where.items())


def _selector_text(where: Mapping[str, Any]) -> str:
    return ", ".join(str(v) if k == "strategy" else f"{k} {v}" for k, v in where.items())
