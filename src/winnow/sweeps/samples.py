"""Loading of the samples of finished cells. A cell is one setting of a sweep.

A sample is the input of a metric for one question: the question, its prediction and, if the metric
needs them, the contexts that were placed and those that the reader's prompts showed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from winnow.artifacts import contracts, parquet
from winnow.artifacts.provenance import check_content
from winnow.artifacts.rankings import Rankings, read_rankings
from winnow.artifacts.sequences import LazySequence
from winnow.artifacts.steps import StoredSteps, has_steps
from winnow.artifacts.tables import convert_predictions, read_prediction_table, read_questions
from winnow.contexts.build import build_ranked_contexts
from winnow.contexts.shown import build_shown
from winnow.driver.jobs import Job
from winnow.errors import ArtifactError
from winnow.metrics.base import Input, JudgedMetric, Metric, Row, Sample, Shown
from winnow.predictions import Prediction, Price
from winnow.records import Context, Question, Role
from winnow.steps import Outcome
from winnow.sweeps.spec import CellSpec

_BLOCK = 1000
"""Number of samples that are built at once."""


@dataclass
class SampleReader:
    """Reads the samples of finished cells. Cells share the questions and rankings that they have in
    common.

    Attributes:
        inputs: Additional inputs that metrics or breakdowns need, "placed", "shown" or "ranking".
    """

    inputs: Collection[Input] = ()
    _questions: dict[object, Mapping[str, Question]] = field(default_factory=dict, repr=False)
    _rankings: dict[object, Rankings] = field(default_factory=dict, repr=False)
    _ranked: dict[object, Mapping[str, Sequence[Context]]] = field(default_factory=dict, repr=False)

    def read(self, spec: CellSpec) -> Sequence[Sample]:
        """Read a cell's samples in the order of its predictions. Each is built when it is used.

        Raises:
            ArtifactError: If the predictions were changed after they were written, or if they
                answer an unknown question.
        """
        check_content(spec.folder)
        questions = self._read_questions(spec)
        ids = parquet.read(spec.predictions, contracts.PREDICTIONS, columns=["question_id"])
        question_ids = ids["question_id"].to_pylist()
        unknown_id = next(
            (question_id for question_id in question_ids if question_id not in questions), None
        )
        if unknown_id is not None:
            raise ArtifactError(
                f"{spec.predictions} answers question {unknown_id!r}, which {spec.questions.path} "
                f"lacks. Remove the folder {spec.folder} and run `python -m flows.sweep` again."
            )
        answered_questions = [questions[question_id] for question_id in question_ids]
        shows = "shown" in self.inputs and has_steps(spec.folder)
        placed_contexts = (
            self._place_contexts(spec, answered_questions)
            if (shows or "placed" in self.inputs) and spec.labels.k
            else {}
        )
        ranked_contexts = (
            self._read_ranked_contexts(spec, answered_questions)
            if shows or "ranking" in self.inputs
            else {}
        )
        steps = (
            StoredSteps(spec.folder, self._read_rankings(spec, answered_questions, None).passages)
            if shows
            else None
        )
        return StoredSamples(
            answered_questions,
            spec.predictions,
            spec.prices,
            placed_contexts,
            ranked_contexts,
            steps,
        )

    def _read_questions(self, spec: CellSpec) -> Mapping[str, Question]:
        """Read the questions of a cell's split by id, once for all cells with the same."""
        key = (spec.questions.path, spec.questions.split)
        if key not in self._questions:
            questions = read_questions(spec.questions.path, [spec.questions.split])
            self._questions[key] = {question.question_id: question for question in questions}
        return self._questions[key]

    def _read_rankings(
        self, spec: CellSpec, questions: Sequence[Question], relevance: Path | None
    ) -> Rankings:
        """Read the rankings of a cell, once for all cells with the same."""
        key = (spec.retrieval, relevance, tuple(question.question_id for question in questions))
        if key not in self._rankings:
            self._rankings[key] = read_rankings(spec.retrieval, questions, relevance, spec.pool)
        return self._rankings[key]

    def _read_ranked_contexts(
        self, spec: CellSpec, questions: Sequence[Question]
    ) -> Mapping[str, Sequence[Context]]:
        """Read all stored contexts of each question by question id, in the retriever's order."""
        key = (spec.retrieval, tuple(question.question_id for question in questions))
        if key not in self._ranked:
            rankings = self._read_rankings(spec, questions, None)
            self._ranked[key] = {
                question.question_id: build_ranked_contexts(rankings, question)
                for question in questions
            }
        return self._ranked[key]

    def _place_contexts(
        self, spec: CellSpec, questions: Sequence[Question]
    ) -> Mapping[str, Sequence[Context]]:
        """Build the contexts that the cell placed in each question's prompt, by question id."""
        rankings = self._read_rankings(spec, questions, spec.relevance)
        return {
            question.question_id: spec.place(question, rankings).contexts for question in questions
        }


class StoredSamples(LazySequence[Sample]):
    """The samples of a cell, built from the file of predictions when they are used."""

    def __init__(
        self,
        questions: Sequence[Question],
        predictions: Path,
        prices: Mapping[Role, Price],
        placed: Mapping[str, Sequence[Context]],
        ranked: Mapping[str, Sequence[Context]],
        steps: StoredSteps | None = None,
    ) -> None:
        """Keep the inputs.

        Args:
            questions: Questions in the order of the predictions.
            predictions: File of the predictions.
            prices: Prices by role.
            placed: Placed contexts by question id, or empty if no metric needs them.
            ranked: All stored contexts by question id, or empty if no metric needs them.
            steps: Steps of the cell, or None if no metric needs them or none were recorded.
        """
        self._questions, self._prices, self._placed, self._ranked = (
            questions,
            prices,
            placed,
            ranked,
        )
        self._path, self._steps = predictions, steps
        self._block: tuple[int, list[Sample]] = (-1, [])

    @cached_property
    def _predictions(self) -> pa.Table:
        return read_prediction_table(self._path).combine_chunks()

    @cached_property
    def _step_rows(self) -> pa.Table | None:
        return None if self._steps is None else self._steps.read_table()

    def __len__(self) -> int:
        return len(self._questions)

    def read(self, index: int) -> Sample:
        """Return the sample at an index."""
        return self._read_block(index // _BLOCK)[index % _BLOCK]

    def __iter__(self) -> Iterator[Sample]:
        """Yield the samples, of which only a block is in memory at once."""
        for number in range(0, len(self), _BLOCK):
            yield from self._read_block(number // _BLOCK)

    def _read_block(self, block: int) -> list[Sample]:
        """Build a block's samples. The last block is kept, so a cell's only block is built once."""
        if self._block[0] != block:
            questions = self._questions[block * _BLOCK : (block + 1) * _BLOCK]
            predictions = list(convert_predictions(self._predictions.slice(block * _BLOCK, _BLOCK)))
            shown_contexts = self._read_shown(questions, block)
            samples = [
                self._build(*entry)
                for entry in zip(questions, predictions, shown_contexts, strict=True)
            ]
            self._block = (block, samples)
            return samples
        return self._block[1]

    def _read_shown(self, questions: Sequence[Question], block: int) -> list[Shown | None]:
        """Return what the prompts of each question of a block showed."""
        if self._steps is None or self._step_rows is None:
            return [None] * len(questions)
        stored_steps = self._steps.convert(self._step_rows.slice(block * _BLOCK, _BLOCK))
        shown_contexts: list[Shown | None] = []
        for question, (question_id, own) in zip(questions, stored_steps, strict=True):
            self._check_order(question, question_id)
            known_contexts = (
                *self._ranked.get(question_id, ()),
                *self._placed.get(question_id, ()),
            )
            shown_contexts.append(build_shown(question, own.steps, own.used, known_contexts))
        return shown_contexts

    def _check_order(self, question: Question, question_id: str) -> None:
        if question_id != question.question_id:
            raise ArtifactError(f"{self._path} was changed while it was read. Repeat the command.")

    def _build(self, question: Question, prediction: Prediction, shown: Shown | None) -> Sample:
        question_id = question.question_id
        self._check_order(question, prediction.question_id)
        return Sample(
            question,
            prediction,
            self._placed.get(question_id, ()),
            self._prices,
            self._ranked.get(question_id, ()),
            shown,
        )


def build_judge_jobs(
    metrics: Iterable[Metric], samples: Mapping[str, Sequence[Sample]]
) -> list[Job[float | None]]:
    """Build one job per judged metric and sample. A judged metric is computed by a model.

    Args:
        metrics: Metrics of any kind.
        samples: Samples by cell key.

    Returns:
        Jobs whose tags are (metric name, cell key, sample index).
    """
    return [
        Job((metric.name, key, index), metric.plan(sample))
        for metric in metrics
        if isinstance(metric, JudgedMetric)
        for key, cell_samples in samples.items()
        for index, sample in enumerate(cell_samples)
    ]


def collect_judged_rows(
    outcomes: Iterable[Outcome[float | None]], samples: Mapping[str, Sequence[Sample]]
) -> dict[str, dict[str, list[Row | None]]]:
    """Collect the rows of judged metrics by cell key and metric name.

    Args:
        outcomes: Outcomes of the jobs from `build_judge_jobs`, in any order.
        samples: Samples by cell key.

    Returns:
        One row per sample, or None if the judge gave no score.
    """
    rows: dict[str, dict[str, list[Row | None]]] = {key: {} for key in samples}
    for outcome in outcomes:
        tag: Any = outcome.tag
        name, key, index = tag
        metric_rows = rows[key].setdefault(name, [None] * len(samples[key]))
        metric_rows[index] = None if outcome.result is None else {name: outcome.result}
    return rows
