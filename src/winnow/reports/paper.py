"""Our cells beside what a paper states: its numbers lie in papers/<paper>.yaml, each with its source."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from winnow.errors import ConfigError, nearest
from winnow.metrics.cells import by_name
from winnow.reports.cells import CellResult, TableView, difference, paired

NOT_STATED = "not stated"
_WHERE = ("strategy", "k", "gold", "samples", "rank_by", "weigh_by")


@dataclass(frozen=True, slots=True)
class Stated:
    """One value of a paper, in its unit (percent for shares): a point, a range where it gives no more, NaN for a dash."""

    measure: str
    low: float
    high: float
    where: Mapping[str, Any]
    """Which cells it is of: strategy, and k, gold, samples, ranking or weights where they matter."""
    note: str = ""

    def show(self) -> str:
        """Render the value."""
        if math.isnan(self.low):
            return "-"
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True)
class Contrast:
    """A difference that a paper states between two cells: a value, or only its sign."""

    measure: str
    of: Mapping[str, Any]
    less: Mapping[str, Any]
    value: float | None = None
    sign: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A table or figure of a paper, for one data set and model of it."""

    title: str
    against: str
    at: Mapping[str, Any]
    measures: Sequence[str]
    stated: Sequence[Stated]
    contrasts: Sequence[Contrast]
    others: Mapping[str, float]
    questions: Sequence[int]
    gold_only: bool
    """Whether only questions count that have a gold passage."""


def load(paper: str, part: str, dataset: str, model: str) -> Part:
    """Read one part of papers/<paper>.yaml; refuse names that the file does not have."""
    body = yaml.safe_load(_pick("paper", paper, {p.name[:-5]: p for p in _papers()}).read_text(encoding="utf-8"))
    found = _pick("part", part, {k: v for k, v in body.items() if isinstance(v, Mapping) and "measures" in v})
    at, stated = found["at"], [_stated(one, found["at"]) for one in found.get("stated", ())]
    against = f"{body['title']}, {found['title']}"
    if "values" in found:
        rows = _pick("model", model, _pick("dataset", dataset, found["values"]))
        against += f" ({dataset}, {model})"
        stated += [
            _stated({"measure": measure, "value": math.nan if value is None else value, "strategy": strategy}, at)
            for strategy, values in rows.items()
            for measure, value in zip(found["measures"], values, strict=True)
        ]
    elif "cells" in found:
        against += f" ({dataset})"
    stated += [
        _stated({"measure": one.get("measure", "em"), "value": one[dataset], **one["where"]}, at)
        for one in found.get("cells", ())
        if dataset in one
    ]
    others = {who: values[dataset] for who, values in found.get("others", {}).items() if dataset in values}
    contrasts = [Contrast(**one) for one in found.get("contrasts", ())]
    asked, gold_only = body.get("questions", {}).get(dataset, ()), bool(found.get("gold_only"))
    return Part(found["title"], against, at, found["measures"], stated, contrasts, others, asked, gold_only)


def _papers() -> list[Any]:
    return [one for one in (files("winnow.reports") / "papers").iterdir() if one.name.endswith(".yaml")]


def _pick(what: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise ConfigError(f"report.paper.{what}={name!r}: there are {', '.join(known)}." + nearest(name, known))
    return known[name]


def _stated(one: Mapping[str, Any], at: Mapping[str, Any]) -> Stated:
    where = {key: one[key] for key in _WHERE if key in one}
    low, high = one.get("value", one.get("low")), one.get("value", one.get("high"))
    assert low is not None
    assert high is not None
    return Stated(one["measure"], low, high, {**at, **where}, one.get("note", ""))


def beside(part: Part, cells: Sequence[CellResult], seed: int, counted: tuple[int, int] | None) -> list[TableView]:
    """Return our cells beside the paper's values, its differences beside ours, and the question counts of both.

    Args:
        part: what the paper states.
        cells: ours; the caller has left out questions without a gold passage where the part says so.
        seed: of the bootstrap.
        counted: our questions before and after the closed-book filter, if there was one.

    """
    tables = [_values(part, cells, seed)]
    if part.contrasts:
        tables.append(_contrasts(part, cells, seed))
    if part.questions and counted:
        rows = [["ours", *map(str, counted)], ["paper", *map(str, part.questions)]]
        over = "questions left after those that the reader answers without passages (the paper's: section 4)"
        tables.append(TableView("Closed-book filter", over, ["", "before", "after"], rows))
    return tables


def _values(part: Part, cells: Sequence[CellResult], seed: int) -> TableView:
    named = [by_name(measure) for measure in part.measures]
    rows = []
    for cell in cells:
        row = [cell.line, str(cell.k), cell.gold, str(cell.samples)]
        for measure in named:
            ours = measure.estimate(cell.rows, seed)
            scale = 100 if measure.share else 1
            found = next((s for s in part.stated if s.measure == measure.name and _fits(cell, s.where)), None)
            shown = "-" if measure.name == "nm" and not cell.voted else measure.show(ours)
            if found is None or shown == "-" or math.isnan(found.low):
                row += [shown, NOT_STATED if found is None else found.show(), "-"]
            else:
                near = min(max(scale * ours.mean, found.low), found.high)
                row += [shown, found.show(), f"{scale * ours.mean - near:+.1f}"]
        rows.append(row)
    rows += [
        [f"{who} (others' result)", "", "", "", *_cells_of("em", value, part.measures)] for who, value in part.others.items()
    ]
    columns = ["strategy", "k", "gold", "samples"]
    columns += [f"{measure.title} {side}" for measure in named for side in ("ours", "paper", "diff.")]
    notes = "; ".join(dict.fromkeys(s.note for s in part.stated if s.note))
    over = f"{len(cells[0].rows)} questions; ours with 95 % intervals, on our data and reader. {notes}".strip()
    return TableView(f"Beside the paper: {part.against}", over, columns, rows)


def _cells_of(measure: str, value: float, measures: Sequence[str]) -> list[str]:
    return [text for name in measures for text in (("-", f"{value:g}", "-") if name == measure else ("-", "-", "-"))]


def _contrasts(part: Part, cells: Sequence[CellResult], seed: int) -> TableView:
    rows = []
    for one in part.contrasts:
        left, right = ([c for c in cells if _fits(c, {**part.at, **side})] for side in (one.of, one.less))
        pair = next(((a, b) for a in left for b in right if paired(a, b)), None)
        theirs = one.sign or f"{one.value:+g}"
        labels = [by_name(one.measure).title, _words(one.of), _words(one.less)]
        if pair is None:
            rows.append([*labels, "not run", "-", theirs, one.note])
            continue
        found, share = difference(*pair, one.measure, seed), by_name(one.measure).share
        rows.append([*labels, found.signed(100 if share else 1), f"{found.p_value:.3f}" if share else "-", theirs, one.note])
    over = "paired by question: bootstrap intervals, and McNemar's exact test for shares"
    return TableView(
        "Differences that the paper states", over, ["of", "this", "less this", "ours", "p", "paper", "its words"], rows
    )


def _fits(cell: CellResult, where: Mapping[str, Any]) -> bool:
    return all(getattr(cell, name) == value for name, value in where.items())


def _words(where: Mapping[str, Any]) -> str:
    return ", ".join(str(v) if k == "strategy" else f"{k} {v}" for k, v in where.items())
