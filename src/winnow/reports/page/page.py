"""A sweep's page as one offline HTML file: answer, charts, tables, questions, prompts and votes."""

import base64
import gzip
import math
import os
import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import orjson

from winnow.artifacts.curves import Curves
from winnow.artifacts.files import write_texts
from winnow.metrics.answer import exact_match
from winnow.metrics.base import MeanMetric, Metric
from winnow.metrics.selective import REPLIES, Confidence, compute_confidence
from winnow.reports.cells import CellResult, get_unit_scale, name_cells
from winnow.reports.family import Family
from winnow.reports.frontier import find_frontier
from winnow.reports.page.cases import Case, Texts
from winnow.reports.page.outcomes import OUTCOMES, classify_all
from winnow.reports.page.story import Story, build_story
from winnow.reports.plots import COLORS, order_placement
from winnow.reports.report import Report
from winnow.text.normalization import normalize

_DIGITS = 7
"""Number of significant digits of the values in the page."""
_FOLDER = Path(__file__).parent
_SCRIPTS = (
    "elements",
    "answer",
    "explore",
    "curves",
    "outcomes",
    "questions",
    "question",
    "prompts",
    "compare",
    "tables",
    "main",
)
"""Parts of the script, in the order in which they are joined."""
_MOST_PAIRS = 400
"""Number of tests up to which the page holds all differences; above it, those in its tables."""


@dataclass(frozen=True)
class Page:
    """The page of the cells of a sweep.

    Attributes:
        report: Tables, notes and provenance.
        family: Cells, with all rows of their metrics, and the tests of their differences.
        texts: Texts and passages of the cases.
        cases: Replayed cases by the index of their cell and the id of their question.
        cost: Name of the metric of the cost in charts.
        selection: What the selection of the questions does to cells without passages, such as "low
            by selection, because ..."; "" if the questions were not selected by answers without
            passages.
        keys: Keys of the cells, by which a page that `flows.ui` serves leads to their MLflow runs.
        curves: Curves of the trainings behind the cells, by the names of the trained models.
    """

    report: Report
    family: Family
    texts: Texts
    cases: Mapping[tuple[int, str], Case]
    cost: str = "tokens"
    selection: str = ""
    keys: Sequence[str] = ()
    curves: Mapping[str, Curves] = field(default_factory=dict)

    @cached_property
    def story(self) -> Story:
        """Return what a reader sees first."""
        return build_story(self.family, self.cost, self.selection)

    def render(self) -> str:
        """Render the page as HTML, with the data and chart library embedded in compressed form."""
        from jinja2 import Environment, FileSystemLoader

        data = orjson.dumps(self._build_data(), option=orjson.OPT_NON_STR_KEYS)
        environment = Environment(
            loader=FileSystemLoader(_FOLDER), autoescape=True, trim_blocks=True
        )
        return environment.get_template("page.html").render(
            title=self.report.title,
            style=(_FOLDER / "page.css").read_text(encoding="utf-8"),
            script="\n".join(
                (_FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS
            ),
            library=_compress_library(),
            data=_compress(data),
        )

    def _build_data(self) -> dict[str, Any]:
        """Build what the script reads. Questions and answers are referred to by their numbers."""
        cells, report = self.family.cells, self.report
        largest = max(cells, key=lambda cell: (cell.num_questions, cell.labels.shows_passages))
        names, metrics = name_cells(cells), self._list_metrics(cells[0])
        questions = {
            (cell.labels.questions, s.question.question_id): s.question
            for cell in cells
            for s in cell.samples
        }
        numbers = {key: number for number, key in enumerate(questions)}
        answers = Texts()
        entries = [
            self._build_cell(cell, name, numbers, answers)
            for cell, name in zip(cells, names, strict=True)
        ]
        cases: dict[int, dict[int, Case]] = {}
        for (index, question_id), case in self.cases.items():
            cases.setdefault(index, {})[numbers[cells[index].labels.questions, question_id]] = case
        return {
            "title": report.title,
            "story": self.story,
            "pairs": self._list_pairs(),
            "frontier": self._build_frontier(),
            "curves": self.curves,
            "numGold": _format_range(
                sum(one != "none" for one in cell.columns.provenances)
                for cell in ([one for one in cells if one.labels.shows_passages] or [largest])
            ),
            "numQuestions": largest.num_questions,
            "numTests": self.family.num_tests,
            "selection": self.selection,
            "notes": list(report.notes),
            "provenance": dict(report.provenance),
            "glossary": dict(report.glossary),
            "howToRead": report.how_to_read,
            "tables": [
                {
                    "title": t.title,
                    "caption": t.caption,
                    "columns": list(t.columns),
                    "rows": [list(row) for row in t.rows],
                }
                for t in report.shortened_tables
            ],
            "colors": COLORS,
            "cost": self.cost,
            "placements": list(
                dict.fromkeys(
                    cell.labels.placed or cell.labels.gold
                    for cell in sorted(cells, key=lambda cell: order_placement(cell.labels.gold))
                    if cell.labels.shows_passages
                )
            ),
            "outcomes": OUTCOMES,
            "metrics": [
                {
                    "name": m.name,
                    "title": m.heading,
                    "unit": m.unit,
                    "digits": m.digits,
                    "lower": m.lower_is_better,
                    "mean": isinstance(m, MeanMetric),
                }
                for m in metrics
            ],
            "questions": [
                [
                    q.question_id,
                    q.text,
                    list(q.answers),
                    [normalize(answer) for answer in q.answers],
                    int(bool(q.gold_passage_ids)),
                ]
                for q in questions.values()
            ],
            "answers": answers.texts,
            "cells": [
                {**entry, "first": first, "key": key}
                for entry, first, key in zip(
                    entries, self.family.first_equal, self.keys or [""] * len(cells), strict=True
                )
            ],
            "texts": self.texts.texts,
            "passages": self.texts.passages,
            "cases": cases,
        }

    def _build_frontier(self) -> list[list[float]]:
        """List [cost, best value, low, high] of the first metric for cells without gold labels."""
        family = self.family
        name, seed = family.metric.name, family.seed
        cells = [
            cell
            for cell in family.cells
            if not cell.labels.uses_gold
            and all(
                cell.find_metric(one) and cell.compute_interval(one, seed).n
                for one in (name, self.cost)
            )
        ]
        costs = [
            get_unit_scale(metric) * cell.compute_interval(self.cost, seed).mean
            for cell in cells
            if (metric := cell.find_metric(self.cost)) is not None
        ]
        frontier = None if name == self.cost else find_frontier(cells, name, costs, seed)
        if frontier is None:
            return []
        scale = get_unit_scale(family.metric)
        rows = zip(
            frontier.costs,
            scale * frontier.best,
            scale * frontier.low,
            scale * frontier.high,
            strict=True,
        )
        return [[_round(value) for value in row] for row in rows]

    def _list_pairs(self) -> list[list[float]]:
        """Return [first, second, difference, low, high, p, corrected p, questions] of pairs with
        different results.
        """
        family, scale = self.family, get_unit_scale(self.family.metric)
        if family.num_tests <= _MOST_PAIRS:
            family.compare_all()
        return [
            [
                first, second,
                *(_round(scale * value) for value in (one.difference, one.low, one.high)),
                _round(one.p_value), _round(adjusted_p_value), one.n,
            ]
            for (first, second), (one, adjusted_p_value) in family.compared.items()
        ]  # fmt: skip

    def _build_cell(
        self, cell: CellResult, name: str, numbers: Mapping[tuple[str, str], int], answers: Texts
    ) -> dict[str, Any]:
        labels, seed = cell.labels, self.family.seed
        intervals = {
            metric.name: cell.compute_interval(metric.name, seed)
            for metric in self._list_metrics(cell)
        }
        return {
            "name": name,
            "words": labels.words,
            "strategy": labels.line,
            "k": labels.k,
            "gold": labels.gold,
            "oracle": labels.uses_gold,
            "moves": labels.moves_gold,
            "closed": not labels.shows_passages,
            "fields": {
                **({"strategy and settings": labels.line} if labels.varying else {}),
                "strategy": labels.strategy,
                "k": labels.k,
                "placement": (
                    (labels.placed or labels.gold) if labels.shows_passages else "without passages"
                ),
                **dict(labels.varying),
                **({"seed": labels.seed} if labels.seed else {}),
            },
            "selection": labels.questions,
            "intervals": {
                key: (
                    [_round(value.mean), _round(value.low), _round(value.high), value.n]
                    if value.n
                    else None
                )
                for key, value in intervals.items()
            },
            "questions": [
                numbers[labels.questions, question_id] for question_id in cell.columns.question_ids
            ],
            "answers": [answers.add(answer) for answer in cell.columns.answers],
            "outcomes": classify_all(cell.samples),
            "positions": [sample.prediction.gold_position for sample in cell.samples],
            "confidences": _list_confidences(cell),
            "values": {
                metric.name: self._list_values(cell, metric.name)
                for metric in self._list_metrics(cell)
            },
        }

    def _list_metrics(self, cell: CellResult) -> list[Metric]:
        """Return the metrics of a cell, and the cost if it is not one of them."""
        return [*cell.metrics, *(metric for metric in cell.hidden if metric.name == self.cost)]

    def _list_values(self, cell: CellResult, name: str) -> list[float | None]:
        return [
            None if math.isnan(value) else _round(value)
            for value in cell.compute_values(name).tolist()
        ]


def _list_confidences(cell: CellResult) -> list[float | None]:
    """Return each answer's confidence: reply agreement, else the stated one, or None for "unknown".

    The list is empty if no answer of the cell has a confidence.
    """
    for by in get_args(Confidence):
        is_single = [
            by == "agreement" and f"{REPLIES}1" in one.prediction.trace for one in cell.samples
        ]  # which agrees with itself
        values = [
            None if one.prediction.unknown or is_alone else compute_confidence(one, by)
            for one, is_alone in zip(cell.samples, is_single, strict=True)
        ]
        if any(value is not None for value in values):
            return [None if value is None else _round(value) for value in values]
    return []


def _round(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _compress(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


@cache
def _compress_library() -> str:
    """Return Vega-Lite with what embeds it, as vl-convert has it, so that a page needs no network.

    vl-convert takes two seconds to put it together, so that it is kept in the user's cache, for
    each version of vl-convert.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "winnow"
    file = folder / f"vega-{version('vl-convert-python')}.txt"
    with suppress(OSError):
        return file.read_text(encoding="ascii")
    import vl_convert

    text = _compress(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;").encode())
    with suppress(OSError):
        write_texts(folder, {file.name: text})
    return text


ChosenQuestion = tuple[str, str]
"""A selection of questions, as the labels of its cells name it, and the id of one of them."""


def choose_questions(cells: Sequence[CellResult], most: int, seed: int) -> list[ChosenQuestion]:
    """Choose questions whose prompts the page holds: cell disagreements, then errors, then others.

    Args:
        cells: Cells of the sweep.
        most: Largest number of questions.
        seed: Seed of the order within each of the three groups.

    Returns:
        The questions, of which those of different selections are different.
    """
    correct: dict[ChosenQuestion, set[bool]] = {}
    for cell in cells:
        for sample in cell.samples:
            answers = sample.question.answers
            is_right = bool(answers) and exact_match(sample.prediction.answer, answers) == 1
            key = cell.labels.questions, sample.question.question_id
            correct.setdefault(key, set()).add(is_right)
    chosen = sorted(correct)
    random.Random(seed).shuffle(chosen)
    chosen.sort(key=lambda key: 0 if len(correct[key]) > 1 else 1 if False in correct[key] else 2)
    return chosen[:most]


def list_chosen_ids(cell: CellResult, chosen: Sequence[ChosenQuestion]) -> list[str]:
    """Return the ids of those of the chosen questions that a cell answers, in their order."""
    ids = set(cell.columns.question_ids)
    return [one for selection, one in chosen if selection == cell.labels.questions and one in ids]


def _format_range(numbers: Iterable[int]) -> str:
    low, *_, high = sorted([*(distinct := set(numbers)), *distinct])
    return str(low) if low == high else f"{low} to {high}"
