"""Human labels of answers: a random sample to label, and how a judge's verdicts compare."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from winnow.errors import ConfigError
from winnow.metrics.agreement import compute_agreement, correct_rate
from winnow.metrics.intervals import Interval, build_undefined_interval, compute_mean_interval
from winnow.records import Question
from winnow.reports.cells import CellResult, name_cells

_LABELS: Mapping[object, float] = {
    True: 1.0,
    False: 0.0,
    "yes": 1.0,
    "no": 0.0,
    "true": 1.0,
    "false": 0.0,
    "1": 1.0,
    "0": 0.0,
    "right": 1.0,
    "wrong": 0.0,
}
"""Values of a label; 1 and 0 equal true and false."""
_MOST_NAMES = 3


@dataclass(frozen=True)
class Labels:
    """Labels of answers.

    Attributes:
        values: 1.0 for an answer that people call right and 0.0 for one that they call wrong, by
            question and answer.
        open_keys: Questions and answers in the files that have no label yet.
        questions: Text and accepted answers of each question in the files, as far as they have
            them.
    """

    values: Mapping[tuple[str, str], float]
    open_keys: Set[tuple[str, str]]
    questions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def sample_answers(cells: Sequence[CellResult], most: int, seed: int) -> list[dict[str, Any]]:
    """Return one row to label per distinct answer of the cells to a random sample of questions.

    Args:
        cells: Cells of the sweep.
        most: Number of questions.
        seed: Seed of the sample.
    """
    check_one_selection(cells)
    questions = _collect_questions(cells)
    sampled_ids = draw_questions(cells, seed)[:most]
    answers: dict[str, dict[str, None]] = {question_id: {} for question_id in sampled_ids}
    for cell in cells:
        for sample in cell.samples:
            if sample.question.question_id in answers:
                answers[sample.question.question_id][sample.prediction.answer] = None
    return [_build_row(questions[name], answer) for name, own in answers.items() for answer in own]


def _collect_questions(cells: Sequence[CellResult]) -> dict[str, Question]:
    """Return the questions of all cells by id."""
    return {
        sample.question.question_id: sample.question for cell in cells for sample in cell.samples
    }


def draw_questions(cells: Sequence[CellResult], seed: int) -> list[str]:
    """Return the ids of the cells' questions in random order: the first n are a sample of n."""
    ids = sorted(_collect_questions(cells))
    random.Random(seed).shuffle(ids)  # a larger sample contains the smaller one
    return ids


def list_missing(cells: Sequence[CellResult], labels: Labels) -> list[dict[str, Any]]:
    """Return rows of unlabeled answers to questions that have a label for another answer."""
    labeled_ids = {question_id for question_id, _ in labels.values}
    keys = {
        key: sample.question
        for cell in cells
        for sample in cell.samples
        if (key := (sample.question.question_id, sample.prediction.answer)) not in labels.values
        and key[0] in labeled_ids
    }
    return [_build_row(question, answer) for (_, answer), question in keys.items()]


def _build_row(question: Question, answer: str) -> dict[str, Any]:
    return {
        "question_id": question.question_id,
        "question": question.text,
        "accepted": list(question.answers),
        "answer": answer,
        "label": None,
    }


def check_one_selection(cells: Sequence[CellResult]) -> None:
    """Raise ConfigError if the cells answer different question selections, which may share ids."""
    if len({cell.labels.questions for cell in cells}) > 1:
        raise ConfigError(
            "The cells answer different selections of questions. Calibrate the judge on each "
            "selection by itself."
        )


def read_labels(paths: Sequence[Path]) -> Labels:
    """Read JSON lines of `question_id`, `answer` and `label`: true, false, 1, 0, "yes", "no",
    "right", "wrong" or null.

    Raises:
        ConfigError: If a line is not of this form, if an answer has two different labels, or if
            none has one.
    """
    values: dict[tuple[str, str], float] = {}
    open_keys: set[tuple[str, str]] = set()
    questions: dict[str, dict[str, Any]] = {}
    for place, line in (item for path in paths for item in _iter_lines(path)):
        try:
            row = json.loads(line)
            key, label = (str(row["question_id"]), str(row["answer"])), row["label"]
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{place}: expected an object with question_id, answer and label; received "
                f"{line[:80]}"
            ) from error
        parts = {name: row[name] for name in ("question", "accepted") if name in row}
        questions.setdefault(key[0], {}).update(parts)
        if label is None:
            open_keys.add(key)
            continue
        value = (
            _LABELS.get(label.lower() if isinstance(label, str) else label)
            if not isinstance(label, list | dict)
            else None
        )
        if value is None:
            raise ConfigError(
                f"{place}: label {label!r} is none of true, false, 1, 0, yes, no, right, wrong and "
                "null."
            )
        if values.setdefault(key, value) != value:
            raise ConfigError(
                f"{place}: the answer {key[1]!r} to {key[0]!r} has another label in a line above."
            )
    if not values:
        raise ConfigError(
            f"{paths[0]} has no label: {len(open_keys)} answers wait for one. Set label to true or "
            "false."
        )
    return Labels(values, open_keys - values.keys(), questions)


def check_questions(cells: Sequence[CellResult], labels: Labels) -> None:
    """Raise ConfigError if labels are of other questions than those of the cells with their ids."""
    questions = _collect_questions(cells)
    for question_id, labeled in labels.questions.items():
        question = questions.get(question_id)
        if question is None:
            continue
        own = {"question": question.text, "accepted": list(question.answers)}
        for name, value in labeled.items():
            if value != own[name]:
                raise ConfigError(
                    f"The labels are of other questions: {name} of {question_id!r} is {value!r} "
                    f"there and {own[name]!r} here. Move the file away to label the answers to "
                    "these questions, or name another in calibrate_judge.labels."
                )


def _iter_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines of a file that are not empty, each with its place."""
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
        if line.strip():
            yield f"{path}, line {number}", line


def build_calibration_rows(
    cells: Sequence[CellResult], labels: Labels, seed: int
) -> list[dict[str, Interval | str | int]]:
    """Compare the verdicts of the first metric with the labels; return a row for each cell.

    Rates according to people are undefined for a cell with answers that lack a label to questions
    that have one for another answer: its labeled answers, those that another cell gave as well, are
    no random sample.

    Args:
        cells: Cells, whose first metric is the judge's verdict: 1 or 0, or undefined without one.
        labels: Labels of the answers to a random sample of the questions.
        seed: Seed of the intervals.
    """
    check_one_selection(cells)
    name = cells[0].metrics[0].name
    labeled_ids = {question_id for question_id, _ in labels.values}
    rows: list[dict[str, Interval | str | int]] = []
    for title, cell in zip(name_cells(cells), cells, strict=True):
        keys = list(zip(cell.columns.question_ids, cell.columns.answers, strict=True))
        is_sample = all(key in labels.values for key in keys if key[0] in labeled_ids)
        human = np.array([labels.values.get(key, np.nan) for key in keys])
        verdicts = cell.compute_values(name)
        agreement = compute_agreement(verdicts, human, seed)
        sample_labels = human[~np.isnan(human)] if is_sample else human[:0]
        rows.append(
            {
                "cell": title,
                "labels": int((~np.isnan(human)).sum()),
                "no verdict": int(np.isnan(verdicts).sum()),
                "judge": cell.compute_interval(name, seed),
                "people, labels alone": (
                    compute_mean_interval(sample_labels, seed=seed)
                    if len(sample_labels)
                    else build_undefined_interval()
                ),
                "corrected": (
                    correct_rate(verdicts, human, seed) if is_sample else build_undefined_interval()
                ),
                "kappa": agreement.kappa,
                "agreement": agreement.accuracy,
                "precision": agreement.precision,
                "recall": agreement.recall,
            }
        )
    return rows


def describe_labels(
    cells: Sequence[CellResult], labels: Labels, num_missing: int, seed: int
) -> list[str]:
    """Say what the labels do not cover: answers of other runs, and answers without a label.

    Args:
        cells: Cells of the sweep.
        labels: Labels of their answers.
        num_missing: Number of answers that `list_missing` returns.
        seed: Seed with which questions are drawn from those of the cells.
    """
    known_keys = {
        key
        for cell in cells
        for key in zip(cell.columns.question_ids, cell.columns.answers, strict=True)
    }
    foreign = [key for key in labels.values if key not in known_keys]
    notes = []
    if foreign:
        examples = "; ".join(
            f"{answer!r} to {question}" for question, answer in foreign[:_MOST_NAMES]
        )
        notes.append(
            f"{len(foreign)} of {len(labels.values)} labels are of answers that no cell gave, such "
            f"as {examples}."
        )
    own_ids = {question_id for question_id, _ in labels.values if (question_id, _) in known_keys}
    if others := own_ids - set(draw_questions(cells, seed)[: len(own_ids)]):
        notes.append(
            f"{len(others)} of {len(own_ids)} labeled questions, such as {min(others)}, are not of "
            "the random sample that calibrate_judge.seed draws from those of the cells. The "
            "corrected rates take them for one."
        )
    if labels.open_keys:
        notes.append(
            f"{len(labels.open_keys)} answers in the file have no label yet. The corrected rates "
            "take the labeled ones for a random sample: label them in the order of the file, or "
            "all."
        )
    if num_missing:
        notes.append(
            f"{num_missing} answers have no label, although other answers to their questions have "
            "one. Rates according to people are undefined for their cells until they are "
            "labeled, too: the labeled ones are no random sample."
        )
    name = cells[0].metrics[0].name
    for title, cell in zip(name_cells(cells), cells, strict=True):
        keys = zip(cell.columns.question_ids, cell.columns.answers, strict=True)
        has_label = np.array([key in labels.values for key in keys])
        verdicts = cell.compute_values(name)
        strata = {"right": verdicts == 1, "wrong": verdicts == 0, "no verdict": np.isnan(verdicts)}
        if empty := [
            kind
            for kind, stratum in strata.items()
            if stratum.any() and not (stratum & has_label).any()
        ]:
            notes.append(
                f"{title}: no label of answers with the verdict {', '.join(empty)}; 50 % of these "
                "are taken for right."
            )
    return notes
