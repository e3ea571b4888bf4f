"""Load the samples of finished cells: questions, predictions and, if a metric needs them, contexts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from winnow.artifacts.provenance import check_content
from winnow.artifacts.rankings import read_rankings
from winnow.artifacts.tables import read_predictions, read_questions
from winnow.contexts.build import ranked_contexts
from winnow.driver import Job
from winnow.errors import ArtifactError
from winnow.metrics.base import Input, JudgedMetric, Metric, Row, Sample
from winnow.records import Context, Outcome, Question
from winnow.sweeps.spec import CellSpec


def read_samples(spec: CellSpec, inputs: Collection[Input] = ()) -> list[Sample]:
    """Load the samples of a finished cell, including any additional inputs that metrics or breakdowns need.

    Raises:
        ArtifactError: If the predictions were changed after they were written, or if they answer an unknown question.

    """
    check_content(spec.folder)
    predictions = read_predictions(spec.predictions)
    questions = {q.question_id: q for q in read_questions(spec.questions.path, [spec.questions.split])}
    missing = next((p.question_id for p in predictions if p.question_id not in questions), None)
    if missing is not None:
        raise ArtifactError(f"{spec.predictions} answers question {missing!r}, which {spec.questions.path} lacks.")
    answered = [questions[p.question_id] for p in predictions]
    contexts = _read_placed_contexts(spec, answered) if "contexts" in inputs and spec.labels.k else {}
    rankings = _read_ranked_contexts(spec, answered) if "ranking" in inputs else {}
    return [
        Sample(question, p, contexts.get(p.question_id, ()), spec.prices, rankings.get(p.question_id, ()))
        for question, p in zip(answered, predictions, strict=True)
    ]


def _read_ranked_contexts(spec: CellSpec, questions: Sequence[Question]) -> Mapping[str, Sequence[Context]]:
    rankings = read_rankings(spec.retrieval, questions)
    return {question.question_id: ranked_contexts(rankings, question) for question in questions}


def _read_placed_contexts(spec: CellSpec, questions: Sequence[Question]) -> Mapping[str, Sequence[Context]]:
    rankings = read_rankings(spec.retrieval, questions, spec.relevance)
    return {
        question.question_id: spec.placement.place(
            question, ranked_contexts(rankings, question, spec.rank_by), spec.labels.k
        ).contexts
        for question in questions
    }


def judge_jobs(metrics: Iterable[Metric], samples: Mapping[str, Sequence[Sample]]) -> list[Job[float | None]]:
    """Build one job per judged metric and sample. Each tag is (metric name, cell key, sample index)."""
    return [
        Job((metric.name, key, index), metric.plan(sample))
        for metric in metrics
        if isinstance(metric, JudgedMetric)
        for key, cell_samples in samples.items()
        for index, sample in enumerate(cell_samples)
    ]


def judged_rows(
    outcomes: Iterable[Outcome[float | None]], samples: Mapping[str, Sequence[Sample]]
) -> dict[str, dict[str, list[Row | None]]]:
    """Collect the rows of judged metrics by cell key and metric name; a sample without a verdict has no row."""
    rows: dict[str, dict[str, list[Row | None]]] = {key: {} for key in samples}
    for outcome in outcomes:
        tag: Any = outcome.tag
        name, key, index = tag
        metric_rows = rows[key].setdefault(name, [None] * len(samples[key]))
        metric_rows[index] = None if outcome.result is None else {name: outcome.result}
    return rows
