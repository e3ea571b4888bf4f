"""Tables that compare our cells with the values that a paper reports (papers/<paper>.yaml, each value with its source)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from winnow.errors import ConfigError, nearest
from winnow.metrics.comparisons import Comparison, compare, format_p, holm, questions_needed
from winnow.metrics.intervals import UNDEFINED
from winnow.reports.cells import CellResult, TableView, common_values, paired, scale_of

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
        tables.append(_differences_table(_compute_differences(part, cells, seed)))
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
    titles = [metric.heading if (metric := cells[0].metric(name)) else name for name in part.metrics]
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
        return [ours_text, NOT_REPORTED if paper is None else paper.format(), UNDEFINED]
    mean = scale_of(metric) * ours.mean
    return [ours_text, paper.format(), f"{mean - min(max(mean, paper.low), paper.high):+.1f}"]


def _other_values(metric: str, value: float, metrics: Sequence[str]) -> list[str]:
    return [text for name in metrics for text in ((UNDEFINED, f"{value:g}" if name == metric else UNDEFINED, UNDEFINED))]


@dataclass(frozen=True, slots=True)
class _Difference:
    """Our value of a difference that the paper reports.

    Attributes:
        reported: The paper's difference.
        title: Title of the metric.
        scale: Factor that converts the metric's values to the unit of the paper.
        status: "not run" or "undefined" if there is no comparison, else empty.
        comparison: Our difference.
        needed: Number of questions that show the paper's value with 80 % power, or None if it reports only a sign.
        shared: Strategy and seed of both cells, if several pairs of cells have this difference.

    """

    reported: ReportedDifference
    title: str
    scale: float
    status: str
    comparison: Comparison | None = None
    needed: int | None = None
    shared: str = ""


def _compute_differences(part: PaperPart, cells: Sequence[CellResult], seed: int) -> list[_Difference]:
    return [entry for reported in part.differences for entry in _compute_difference(part, reported, cells, seed)]


def _compute_difference(
    part: PaperPart, reported: ReportedDifference, cells: Sequence[CellResult], seed: int
) -> list[_Difference]:
    """Compute a difference for every pair of cells that differ only as the paper's do, or say that there is none."""
    first_cells, second_cells = (
        [cell for cell in cells if _matches(cell, {**part.at, **where})] for where in (reported.of, reported.less)
    )
    stated = {*reported.of, *reported.less}
    free = [name for name in ("strategy", "k", "gold", "samples", "seed") if name not in stated]
    pairs = [
        (first, second)
        for first in first_cells
        for second in second_cells
        if paired(first, second) and all(getattr(first.labels, name) == getattr(second.labels, name) for name in free)
    ]
    metric = cells[0].metric(reported.metric)
    assert metric is not None, reported.metric
    title, scale = metric.heading, scale_of(metric)
    if not pairs:
        return [_Difference(reported, title, scale, "not run")]
    entries = []
    for pair in pairs:
        values = common_values(*pair, reported.metric, seed)
        shared = ", ".join(
            str(getattr(pair[0].labels, name)) for name in ("strategy", "seed") if name in free and len(pairs) > 1
        )
        if values is None:
            entries.append(_Difference(reported, title, scale, "undefined", shared=shared))
            continue
        spread = [a - b for a, b in zip(*values, strict=True)]
        needed = questions_needed(spread, reported.value / scale) if reported.value else None
        entries.append(_Difference(reported, title, scale, "", compare(*values, seed=seed), needed, shared))
    return entries


def _differences_table(differences: Sequence[_Difference]) -> TableView:
    adjusted = iter(holm([entry.comparison.p_value for entry in differences if entry.comparison is not None]))
    rows = []
    for entry in differences:
        reported, ours = entry.reported, entry.comparison
        paper = reported.sign or f"{reported.value:+g}"
        values = [entry.status, UNDEFINED, UNDEFINED, UNDEFINED, paper, UNDEFINED]
        if ours is not None:
            needed = UNDEFINED if entry.needed is None else f"{entry.needed:,}"
            values = [ours.signed(entry.scale), ours.p_text, format_p(next(adjusted)), str(ours.n), paper, needed]
        first = _selector_text(reported.of) + (f" ({entry.shared})" if entry.shared else "")
        rows.append([entry.title, first, _selector_text(reported.less), *values, reported.note])
    caption = (
        "paired by question: McNemar's exact test and the interval that agrees with it if values are 0 or 1, else a "
        "permutation test and a bootstrap; needed: the questions on which the paper's difference shows with 80 % power"
    )
    columns = ["metric", "A", "B", "A - B", "p", "p (Holm)", "questions", "paper", "needed", "the paper's statement"]
    return TableView("Differences that the paper reports", caption, columns, rows)


def paper_notes(part: PaperPart, cells: Sequence[CellResult], seed: int) -> list[str]:
    """Return a note on the paper's differences that our number of questions is too small to show, or nothing."""
    differences = _compute_differences(part, cells, seed)
    lacking = [d for d in differences if d.comparison is not None and d.needed is not None and d.needed > d.comparison.n]
    known = [d for d in differences if d.comparison is not None and d.needed is not None]
    if not lacking:
        return []
    easiest, hardest = (choose(lacking, key=lambda d: d.needed or 0) for choose in (min, max))
    n = max(d.comparison.n for d in lacking if d.comparison is not None)
    return [
        f"Too few questions: {n} cannot show {len(lacking)} of the {len(known)} differences that the paper puts in numbers "
        f"(80 % power, 5 % level). {_name_difference(easiest)} would need {easiest.needed:,} questions"
        + (f", {_name_difference(hardest)} {hardest.needed:,}." if hardest is not easiest else ".")
    ]


def _name_difference(entry: _Difference) -> str:
    reported = entry.reported
    return f"{entry.title} of {_selector_text(reported.of)} against {_selector_text(reported.less)} ({reported.value:+g})"


def _matches(cell: CellResult, where: Mapping[str, Any]) -> bool:
    return all(getattr(cell.labels, name) == value for name, value in where.items())


def _selector_text(where: Mapping[str, Any]) -> str:
    return ", ".join(str(value) if label == "strategy" else f"{label} {value}" for label, value in where.items())
