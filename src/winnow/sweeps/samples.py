"""Finished cells as samples: questions, predictions and, where a metric needs them, contexts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from winnow.artifacts.provenance import check_content
from winnow.artifacts.rankings import read_rankings
from winnow.artifacts.tables import read_predictions, read_questions
from winnow.contexts.build import contexts_of
from winnow.driver import Job
from winnow.errors import ArtifactError
from winnow.metrics.base import Input, JudgedMetric, Metric, Row, Sample
from winnow.records import Context, Outcome, Question
from winnow.sweeps.spec import CellSpec


def read_samples(spec: CellSpec, inputs: Collection[Input] = ()) -> list[Sample]:
    """Return the samples of a finished cell, with what metrics and breakdowns need beside the predictions.

    Raises:
        ArtifactError: if the predictions were changed since they were written, or answer an unknown question.

    """
    check_content(spec.folder)
    predictions = read_predictions(spec.predictions)
    questions = {q.question_id: q for q in read_questions(spec.questions.path, [spec.questions.split])}
    missing = next((p.question_id for p in predictions if p.question_id not in questions), None)
    if missing is not None:
        raise ArtifactError(f"{spec.predictions} answers question {missing!r}, which {spec.questions.path} lacks.")
    answered = [questions[p.question_id] for p in predictions]
    placed = _placed(spec, answered) if "contexts" in inputs and spec.labels.k else {}
    rankings = _rankings(spec, answered) if "ranking" in inputs else {}
    return [
        Sample(question, p, placed.get(p.question_id, ()), spec.prices, rankings.get(p.question_id, ()))
        for question, p in zip(answered, predictions, strict=True)
    ]


def _rankings(spec: CellSpec, questions: Sequence[Question]) -> Mapping[str, Sequence[Context]]:
    rankings = read_rankings(spec.retrieval, questions)
    return {question.question_id: contexts_of(rankings, question) for question in questions}


def _placed(spec: CellSpec, questions: Sequence[Question]) -> Mapping[str, Sequence[Context]]:
    rankings = read_rankings(spec.retrieval, questions, spec.relevance)
    return {
        question.question_id: spec.placement.place(
            question, contexts_of(rankings, question, spec.rank_by), spec.labels.k
        ).contexts
        for question in questions
    }


def judge_jobs(metrics: Iterable[Metric], samples: Mapping[str, Sequence[Sample]]) -> list[Job[float | None]]:
    """Return the plans of judged metrics for the samples of each cell; tags are (metric, cell key, position)."""
    return [
        Job((metric.name, key, n), metric.plan(sample))
        for metric in metrics
        if isinstance(metric, JudgedMetric)
        for key, rows in samples.items()
        for n, sample in enumerate(rows)
    ]


def judged_rows(
    outcomes: Iterable[Outcome[float | None]], samples: Mapping[str, Sequence[Sample]]
) -> dict[str, dict[str, list[Row | None]]]:
    """Return the rows of judged metrics by cell key and metric."""
    rows: dict[str, dict[str, list[Row | None]]] = {key: {} for key in samples}
    for outcome in outcomes:
        tag: Any = outcome.tag
        name, key, n = tag
        column = rows[key].setdefault(name, [None] * len(samples[key]))
        column[n] = None if outcome.result is None else {name: outcome.result}
    return rows
