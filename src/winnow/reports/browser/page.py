"""The browser page: one HTML file that shows every cell, question, prompt and vote of a sweep, without a network."""

import base64
import gzip
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from winnow.metrics.answer import exact_match
from winnow.reports.browser.cases import Case, Texts
from winnow.reports.browser.findings import build_findings
from winnow.reports.browser.outcomes import OUTCOMES, classify_all
from winnow.reports.cells import CellResult, name_cells
from winnow.text.normalization import normalize

_DIGITS = 6


@dataclass(frozen=True)
class BrowserPage:
    """A page over the cells of a sweep.

    Attributes:
        title: Title of the page.
        cells: Cells, with all rows of their metrics. The first metric is the one that is compared.
        notes: Warnings that are shown above the findings.
        provenance: Description of the data, models, seeds and code, by topic.
        texts: Texts and passages of the cases.
        cases: Replayed cases by the index of their cell and the id of their question.
        seed: Seed of the bootstrap.

    """

    title: str
    cells: Sequence[CellResult]
    notes: Sequence[str]
    provenance: Mapping[str, str]
    texts: Texts
    cases: Mapping[tuple[int, str], Case]
    seed: int
    cells_digest: str = ""

    def render(self) -> str:
        """Render the page as HTML. The data are embedded as compressed JSON."""
        from jinja2 import Environment, FileSystemLoader

        folder = Path(__file__).parent
        compressed = gzip.compress(orjson.dumps(self._build_data(), option=orjson.OPT_NON_STR_KEYS), 9, mtime=0)
        environment = Environment(loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True)
        return environment.get_template("page.html").render(
            title=self.title,
            style=(folder / "page.css").read_text(encoding="utf-8"),
            script=(folder / "page.js").read_text(encoding="utf-8"),
            data=base64.b64encode(compressed).decode(),
        )

    def _build_data(self) -> dict[str, Any]:
        """Build what the script reads. Questions and answers are referred to by their numbers."""
        names = name_cells(self.cells)
        questions = {s.question.question_id: s.question for cell in self.cells for s in cell.samples}
        numbers = {question_id: number for number, question_id in enumerate(questions)}
        answers = Texts()
        cells = [self._build_cell(cell, name, numbers, answers) for cell, name in zip(self.cells, names, strict=True)]
        cases: dict[int, dict[int, Case]] = {}
        for (index, question_id), case in self.cases.items():
            cases.setdefault(index, {})[numbers[question_id]] = case
        return {
            "title": self.title,
            "digest": self.cells_digest,
            "notes": list(self.notes),
            "provenance": dict(self.provenance),
            "findings": build_findings(self.cells, names, self.seed),
            "outcomes": OUTCOMES,
            "metrics": [
                {"name": m.name, "title": m.heading, "unit": m.unit, "digits": m.digits} for m in self.cells[0].metrics
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
            "cells": cells,
            "texts": self.texts.texts,
            "passages": self.texts.passages,
            "cases": cases,
        }

    def _build_cell(self, cell: CellResult, name: str, numbers: Mapping[str, int], answers: Texts) -> dict[str, Any]:
        labels = cell.labels
        intervals = {metric.name: cell.compute_interval(metric.name, self.seed) for metric in cell.metrics}
        return {
            "name": name,
            "strategy": labels.line,
            "k": labels.k,
            "gold": labels.gold,
            "selection": labels.questions,
            "intervals": {
                key: [_round(value.mean), _round(value.low), _round(value.high), value.n] if value.n else None
                for key, value in intervals.items()
            },
            "questions": [numbers[question_id] for question_id in cell.columns.question_ids],
            "answers": [answers.add(answer) for answer in cell.columns.answers],
            "outcomes": classify_all(cell.samples),
            "positions": [sample.prediction.gold_position for sample in cell.samples],
            "values": {metric.name: self._list_values(cell, metric.name) for metric in cell.metrics},
        }

    def _list_values(self, cell: CellResult, name: str) -> list[float | None]:
        return [None if math.isnan(value) else _round(value) for value in cell.compute_values(name).tolist()]


def _round(value: float) -> float:
    return round(float(value), _DIGITS)


def choose_questions(cells: Sequence[CellResult], most: int, seed: int) -> list[str]:
    """Choose the questions whose prompts the page holds: disagreements between cells first, then errors, then the others.

    Args:
        cells: Cells of the sweep.
        most: Largest number of questions.
        seed: Seed of the order within each of the three groups.

    Returns:
        Ids of the questions.

    """
    correct: dict[str, set[bool]] = {}
    for cell in cells:
        for sample in cell.samples:
            answers = sample.question.answers
            is_right = bool(answers) and exact_match(sample.prediction.answer, answers) == 1
            correct.setdefault(sample.question.question_id, set()).add(is_right)
    ids = sorted(correct)
    random.Random(seed).shuffle(ids)
    ids.sort(key=lambda question_id: 0 if len(correct[question_id]) > 1 else 1 if False in correct[question_id] else 2)
    return ids[:most]
